package telemetry

import "github.com/go-json-experiment/json/jsontext"

// Device is the class of the device on which a page was loaded, empty where it is not known. Page
// loads are compared within a class.
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

// DeviceOf returns the class with a name, or "".
func DeviceOf(name string) Device {
	for _, d := range devices {
		if string(d) == name {
			return d
		}
	}
	return ""
}

// UnmarshalJSON decodes the name of a class. Anything else is ignored, as unknown fields are: no
// event is refused for it.
func (d *Device) UnmarshalJSON(data []byte) error {
	*d = ""
	if text, err := jsontext.AppendUnquote(nil, data); err == nil {
		*d = DeviceOf(string(text))
	}
	return nil
}
