package telemetry

import "github.com/go-json-experiment/json/jsontext"

// Device is the class of the device on which a page was loaded, or empty where
// nobody told. It is told so that the loads of telephones are compared with those
// of telephones.
type Device string

// The classes of devices.
const (
	DeviceMobile  Device = "mobile"
	DeviceTablet  Device = "tablet"
	DeviceDesktop Device = "desktop"
)

// Devices lists every class.
func Devices() []Device { return []Device{DeviceMobile, DeviceTablet, DeviceDesktop} }

var devices = Devices()

// DeviceOf is the class of a name, or none for another name.
func DeviceOf(name string) Device {
	for _, d := range devices {
		if string(d) == name {
			return d
		}
	}
	return ""
}

// UnmarshalJSON takes the name of a class. Everything else is ignored, as unknown
// fields are, whatever type it has: no load is refused for it.
func (d *Device) UnmarshalJSON(data []byte) error {
	*d = ""
	if text, err := jsontext.AppendUnquote(nil, data); err == nil {
		*d = DeviceOf(string(text))
	}
	return nil
}
