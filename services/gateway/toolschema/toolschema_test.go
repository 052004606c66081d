package toolschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/toolschema"
)

type color string

type paint struct {
	LayersGiven bool `json:"-" given:"layers"`
	Layers      int  `json:"layers" min:"1" max:"9" default:"2" jsonschema:"How many layers"`
}

type arguments struct {
	Action string `json:"action" enum:"action" required:"true"`
	paint
	Colors []color  `json:"colors" enum:"color" default:"red" jsonschema:"Which colors"`
	Rooms  []string `json:"rooms" max:"2" elements:"rooms"`
	Note   string   `json:"note" max:"5" default:""`
	Hint   string   `json:"hint" enum:"color" default:"red" lenient:"true"`
	Via    string   `json:"via" enum:"color"`
	Tag    string   `json:"tag" max:"7" bounds:"shown"`
	Tints  []color  `json:"tints" enum:"color" default:"red" bounds:"shown"`
}

var enums = toolschema.Enums{"action": {"start", "stop"}, "color": {"red", "blue"}}

func newSchema(t testing.TB) *toolschema.Schema[arguments] {
	t.Helper()
	s, err := toolschema.New[arguments](enums)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJSON(t *testing.T) {
	const want = `{"type":"object","properties":{"action":{"type":"string","enum":["start","stop"]},` +
		`"layers":{"type":"integer","description":"How many layers","default":2,"minimum":1,"maximum":9},` +
		`"colors":{"type":"array","description":"Which colors","default":["red"],"items":{"type":"string","enum":["red","blue"]}},` +
		`"rooms":{"type":"array","items":{"type":"string"}},"note":{"type":"string","default":""},` +
		`"hint":{"type":"string","default":"red","enum":["red","blue"]},"via":{"type":"string","enum":["red","blue"]},"tag":{"type":"string","maxLength":7},` +
		`"tints":{"type":"array","default":["red"],"minItems":1,"items":{"type":"string","enum":["red","blue"]}}},` +
		`"required":["action"],"additionalProperties":false}`
	var got, wanted any
	if err := json.Unmarshal(newSchema(t).JSON(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want arguments
	}{
		{`{"action":"stop"}`, arguments{Action: "stop", paint: paint{false, 2}, Colors: []color{"red"}, Hint: "red", Tints: []color{"red"}}},
		{`{"action":"start","layers":9.0,"colors":["blue"],"rooms":["a"],"note":"12345","hint":"pink","via":"blue"}`,
			arguments{Action: "start", paint: paint{true, 9}, Colors: []color{"blue"}, Rooms: []string{"a"}, Note: "12345", Hint: "pink", Via: "blue", Tints: []color{"red"}}},
		{`{"action":"stop","layers":2}`, arguments{Action: "stop", paint: paint{true, 2}, Colors: []color{"red"}, Hint: "red", Tints: []color{"red"}}},
		{`{"action":"stop","note":"","via":"","hint":""}`, arguments{Action: "stop", paint: paint{false, 2}, Colors: []color{"red"}, Hint: "red", Tints: []color{"red"}}},
	} {
		got, err := newSchema(t).Decode(json.RawMessage(tt.in))
		if err != nil {
			t.Errorf("Decode(%s) = %v, want no error", tt.in, err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(arguments{})); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", tt.in, diff)
		}
	}
}

// TestRefusals: each names the argument and what is allowed.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`[1]`, "the arguments must be a JSON object"},
		{``, "action must be one of start, stop"},
		{`{"action":""}`, "action must be one of start, stop"},
		{`{"action":null}`, "action must be one of start, stop"},
		{`{"action":"run"}`, "action must be one of start, stop"},
		{`{"action":"stop","layers":0}`, "layers must be between 1 and 9"},
		{`{"action":"stop","layers":1e300}`, "layers must be between 1 and 9"},
		{`{"action":"stop","layers":"2"}`, "layers must be between 1 and 9"},
		{`{"action":"stop","layers":null}`, "layers must be between 1 and 9"},
		{`{"action":"stop","layers":1.5}`, "layers must be between 1 and 9, in whole numbers"},
		{`{"action":"stop","colors":[]}`, "colors must be a list with at least one of red, blue"},
		{`{"action":"stop","colors":["red","pink"]}`, "colors must be a list with at least one of red, blue"},
		{`{"action":"stop","colors":["red","blue","red"]}`, "colors must be a list with at least one of red, blue"},
		{`{"action":"stop","colors":"red"}`, "colors must be a list with at least one of red, blue"},
		{`{"action":"stop","rooms":["a","b","c"]}`, "rooms must be a list of at most 2 rooms"},
		{`{"action":"stop","rooms":null}`, "rooms must be a list of at most 2 rooms"},
		{`{"action":"stop","note":"123456"}`, "note must be a text of at most 5 bytes"},
		{`{"action":"stop","note":null}`, "note must be a text of at most 5 bytes"},
		{`{"action":"stop","hint":7}`, "hint must be one of red, blue"},
		{`{"action":"stop","via":"pink"}`, "via must be one of red, blue"},
		{`{"action":"stop","z":1,"a\u001b":1}`, "unknown argument a␛; the arguments are action, layers, colors, rooms, note, hint, via, tag, tints"},
	} {
		if _, err := newSchema(t).Decode(json.RawMessage(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("Decode(%s) = %v, want %q", tt.in, err, tt.want)
		}
	}
}

// TestObjects: an argument with the tag object takes an object as its JSON, within its bound.
func TestObjects(t *testing.T) {
	s, err := toolschema.New[struct {
		Data string `json:"data" max:"9" object:"true"`
	}](nil)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"data":"x"}`: "x", `{"data":{ "a" : 1 }}`: `{"a":1}`, `{"data":{}}`: `{}`, `{"data":""}`: "", `{}`: "",
	} {
		if got, err := s.Decode(json.RawMessage(in)); err != nil || got.Data != want {
			t.Errorf("%s = %q, %v, want %q", in, got.Data, err, want)
		}
	}
	for _, in := range []string{`{"data":{"a":12345}}`, `{"data":[1]}`, `{"data":1}`, `{"data":null}`} {
		if got, err := s.Decode(json.RawMessage(in)); err == nil || err.Error() != "data must be a text of at most 9 bytes" {
			t.Errorf("%s = %q, %v, want a refusal", in, got.Data, err)
		}
	}
}

func TestNoArguments(t *testing.T) {
	s, err := toolschema.New[struct{}](nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.JSON()), `{"type":"object","properties":{},"additionalProperties":false}`; got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	const want = "unknown argument x; there are no arguments"
	if _, err := s.Decode(json.RawMessage(`{"x":1}`)); err == nil || err.Error() != want {
		t.Errorf("Decode = %v, want %q", err, want)
	}
}

func TestMarkdown(t *testing.T) {
	got := newSchema(t).Markdown()
	for _, want := range []string{
		"| `action` | `start`, `stop` | required |  |\n",
		"| `layers` | whole number from 1 to 9 | `2` | How many layers |\n",
		"| `rooms` | list of at most 2 rooms |  |  |\n",
		"| `note` | text of at most 5 bytes |  |  |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("Markdown = %s, want a line %s", got, want)
		}
	}
}

func TestMalformedTags(t *testing.T) {
	if _, err := toolschema.New[struct {
		A string `json:"a" enum:"unknown"`
	}](enums); err == nil {
		t.Error("New with an unknown table succeeds, want an error")
	}
	if _, err := toolschema.New[struct {
		A bool `json:"a"`
	}](enums); err == nil {
		t.Error("New with a bool succeeds, want an error")
	}
	if _, err := toolschema.New[struct {
		A int `json:"a" max:"x"`
	}](enums); err == nil {
		t.Error("New with a malformed bound succeeds, want an error")
	}
	if _, err := toolschema.New[struct {
		A     int  `json:"a"`
		Given bool `json:"-" given:"b"`
	}](enums); err == nil {
		t.Error("New with a tag given for an argument that is not there succeeds, want an error")
	}
	if _, err := toolschema.New[struct {
		A     int `json:"a"`
		Given int `json:"-" given:"a"`
	}](enums); err == nil {
		t.Error("New with an int for given succeeds, want an error")
	}
}
