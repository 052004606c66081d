package masking_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/masking"
)

func newMasker(t testing.TB, c masking.Config) *masking.Masker {
	t.Helper()
	m, err := masking.New(c)
	if err != nil {
		t.Fatalf("New(%+v) failed: %v, want a masker", c, err)
	}
	return m
}

const needle = "bjMzZGxl" // base64 that no name or shape gives away

func TestKubernetesSecrets(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{})
	for name, c := range map[string]struct {
		text string
		// want are texts that stay. withheld is set if the rest is withheld.
		want     []string
		withheld bool
	}{
		"kubectl get -o yaml": {
			text: "apiVersion: v1\ndata:\n  host: " + needle + "\n  long: |\n    " + needle + "\n\n    user: " + needle + "\nkind: Secret\nmetadata:\n  name: shop\ntype: Opaque\n",
			want: []string{"  host: [MASKED_SECRET_DATA]\n  long: [MASKED_SECRET_DATA]\nkind: Secret\nmetadata:\n  name: shop\ntype: Opaque\n"},
		},
		"kind first, stringData": {text: "kind: Secret\nmetadata:\n  name: shop\nstringData:\n  a: \"x " + needle + "\"\n  b: '" + needle + "'\nimmutable: true\n", want: []string{"  a: [MASKED_SECRET_DATA]\n  b: [MASKED_SECRET_DATA]\nimmutable: true"}},
		"quoted keys and a tag":  {text: "\"kind\": !!str 'Secret'\n\"data\": !!map\n  \"a\": !!binary " + needle + "\n", want: []string{`"a": `}},
		"multi-line scalars":     {text: "kind: Secret\nstringData:\n  a: \"x\n" + needle + "\"\n  b: y\n    " + needle + "\n  c:\n    " + needle + "\n  # " + needle + "\n  d: 'a\n\n   it''s " + needle + "'\ntype: Opaque\n", want: []string{"type: Opaque"}},
		"other line ends":        {text: "kind: Secret\nstringData:\n  a: |2-\n\u2028    " + needle + "\n  b: x\u0085" + needle + "\n  c: x\r" + needle + "\ntype: Opaque\n", want: []string{"type: Opaque"}},
		"flow in block":          {text: "kind: Secret\ndata: {a: " + needle + ",\nb: '" + needle + "'}\ntype: Opaque\n", want: []string{"kind: Secret\ndata: [MASKED_SECRET_DATA]\ntype: Opaque"}},
		"a comment":              {text: "kind: Secret # really\ndata: # old\n  # was " + needle + "\n  a: " + needle + "\n", want: []string{"kind: Secret # really\ndata: # old\n  a: "}},
		"documents": {
			text: "kind: ConfigMap\ndata:\n  color: green\n---\nkind: Secret\ndata:\n  a: " + needle + "\n---\nkind: ConfigMap\ndata:\n  size: large\n",
			want: []string{"color: green\n---", "a: [MASKED_SECRET_DATA]\n---", "size: large"},
		},
		"list in YAML": {
			text: "apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    a: " + needle + "\n  kind: Secret\n  metadata:\n    annotations:\n      kubectl.kubernetes.io/last-applied-configuration: |\n        {\"apiVersion\":\"v1\",\"data\":{\"a\":\"" + needle + "\"},\"kind\":\"Secret\"}\n    name: shop\n- apiVersion: v1\n  data:\n    color: green\n  kind: ConfigMap\nkind: List\n",
			want: []string{"name: shop", "color: green", "kind: List", "last-applied-configuration: [MASKED_SECRET_DATA]"},
		},
		"SecretList without kinds": {text: "apiVersion: v1\nitems:\n  - data:\n      a: " + needle + "\n  - metadata: {name: shop}\n    data: {b: " + needle + "}\nkind: SecretList\n", want: []string{"name: shop"}},
		"SecretList in JSON":       {text: `{"items":[{"metadata":{"name":"shop"},"data":{"a":"` + needle + `"}}],"kind":"SecretList"}`, want: []string{`{"items":[{"metadata":{"name":"shop"},"data":{"a":"[MASKED_SECRET_DATA]"}}],"kind":"SecretList"}`}},
		"JSON": {
			text: `{"apiVersion":"v1","data":{"a":"` + needle + `","b":{"c":["` + needle + `"]}},"kind":"Secret","metadata":{"name":"shop"}}`,
			want: []string{`{"apiVersion":"v1","data":{"a":"[MASKED_SECRET_DATA]","b":"[MASKED_SECRET_DATA]"},"kind":"Secret","metadata":{"name":"shop"}}`},
		},
		"last applied in JSON": {
			text: `{"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"a\":\"` + needle + `\"},\"kind\":\"Secret\"}\n","owner":"shop"}}}`,
			want: []string{`"kubectl.kubernetes.io/last-applied-configuration":"[MASKED_SECRET_DATA]","owner":"shop"`},
		},
		"JSON in other text":       {text: "It is\n```json\n{\n  \"data\": {\n    \"a\": \"" + needle + "\"\n  },\n  \"kind\": \"Secret\"\n}\n```\nas you see", want: []string{"It is\n", "\n```\nas you see"}},
		"YAML in other text":       {text: "Here is the output:\n\n  data:\n    a: " + needle + "\n  kind: Secret\nThat was it. Next: look\n", want: []string{"Here is the output:", "That was it. Next: look"}},
		"YAML in JSON":             {text: `{"content":[{"type":"text","text":"data:\n  a: ` + needle + `\nkind: Secret\n"}]}`, want: []string{`{"content":[{"type":"text","text":"data:\n  a: [MASKED_SECRET_DATA]\nkind: Secret\n"}]}`}},
		"JSON in JSON in JSON":     {text: `{"a":"{\"b\":\"{\\\"kind\\\":\\\"Secret\\\",\\\"data\\\":{\\\"a\\\":\\\"` + needle + `\\\"}}\"}"}`, want: []string{`\\\"data\\\":{\\\"a\\\":\\\"[MASKED_SECRET_DATA]\\\"`}},
		"logfmt":                   {text: `level=info object="{\"kind\":\"Secret\",\"data\":{\"a\":\"` + needle + `\"}}" after=1`, want: []string{`level=info object="{\"kind\":`, `after=1`}},
		"Python":                   {text: `{'kind': 'Secret', 'data': {'a': '` + needle + `'}, 'type': 'Opaque'}`, want: []string{`'type': 'Opaque'`}},
		"in a ConfigMap":           {text: "kind: ConfigMap\ndata:\n  color: green\n  manifest: |\n    kind: Secret\n    data:\n      a: " + needle + "\n", want: []string{"color: green", "      a: [MASKED_SECRET_DATA]"}},
		"cut before its kind":      {text: `{"apiVersion":"v1","data":{"a":"x","b":"` + needle, withheld: true},
		"cut JSON":                 {text: `ok {"kind":"Secret","data":{"a":"` + needle, want: []string{"ok "}, withheld: true},
		"an unclosed brace":        {text: "kind: Secret\ndata: {a: " + needle + "\n", withheld: true},
		"an unclosed quote":        {text: "kind: Secret\ndata:\n  a: \"" + needle + "\ntype: x\n" + needle, withheld: true},
		"a broken string":          {text: "{\"kind\":\"Secret\",\"stringData\":{\"a\":\"x\n, " + needle + "\"}}", withheld: true},
		"brackets that differ":     {text: `{"kind":"Secret","data":{"a":["` + needle + `"},"b":"` + needle + `"}`, withheld: true},
		"a diff with context":      {text: " kind: Secret\n data:\n-  a: " + needle + "\n+  a: " + needle + "\n", withheld: true},
		"a diff with a kind below": {text: "@@ -1 +1 @@\n apiVersion: v1\n data:\n+  a: " + needle + "\n kind: Secret\n", want: []string{"@@ -1 +1 @@\n apiVersion: v1\n"}, withheld: true},
		"a list that is cut":       {text: "  name: x\n- kind: Secret\n  data:\n    a: " + needle + "\n- kind: Pod\n", want: []string{"- kind: Pod\n"}},
		"a diff":                   {text: "+apiVersion: v1\n+data:\n+  a: " + needle + "\n+kind: Secret\n", want: []string{"+apiVersion: v1\n"}, withheld: true},
		"times before lines":       {text: "10:00:01 F data:\n10:00:01 F   a: " + needle + "\n10:00:01 F kind: Secret\n", withheld: true},
		"data without indentation": {text: "kind: Secret\ndata:\na: " + needle + "\n", want: []string{"kind: Secret\ndata:\n"}, withheld: true},
		"a comma behind":           {text: "kind: Secret\ndata: {password: " + needle + ", b: " + needle + "}\n"},
		"escapes that are none": {
			text: `x="{\"kind\":\"Secret\",\q\"data\":{\"a\":\"` + needle + `\"}}"`, withheld: true,
		},
		"too deep": {text: strings.Repeat("[", 3000) + strings.Repeat(`{"a":`, 3000) + `{"kind":"Secret","data":{"a":"` + needle + `"}}`, withheld: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := m.Mask(c.text)
			if strings.Contains(got, needle) {
				t.Errorf("Mask = %q, want it without %q", got, needle)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("Mask = %q, want it with %q", got, want)
				}
			}
			if !c.withheld && !strings.Contains(got, masking.SecretData) {
				t.Errorf("Mask = %q, want it with %q", got, masking.SecretData)
			}
			if withheld := strings.Contains(got, masking.Withheld); withheld != c.withheld {
				t.Errorf("Mask = %q, withheld %t, want %t", got, withheld, c.withheld)
			}
			if again := m.Mask(got); again != got {
				t.Errorf("masked again %q, want %q", again, got)
			}
		})
	}
}

// TestRareFormsOfSecrets: Secrets in admission reviews, audit events and JSON patches, as Go and Python
// print them, and those whose head is cut off.
func TestRareFormsOfSecrets(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{})
	const mask = masking.SecretData
	head := "metadata:\n  name: shop\ntype: Opaque\n"
	numbers := fmt.Sprintf("%d", []byte(needle))
	shop := secret{TypeMeta{"Secret", "v1"}, ObjectMeta{"shop", map[string]string{"app": "shop"}}, map[string][]byte{"a": []byte(needle), "b": []byte("x]y")}, map[string]string{"c": needle + "]z " + needle}, "Opaque"}
	for name, c := range map[string]struct{ text, want string }{
		"admission review": {
			`{"kind":"AdmissionReview","request":{"kind":{"group":"","version":"v1","kind":"Secret"},"object":{"metadata":{"name":"shop"},"data":{"a":"` + needle + `"}},"oldObject":{"data":{"a":"` + needle + `"}}}}`,
			`{"kind":"AdmissionReview","request":{"kind":{"group":"","version":"v1","kind":"Secret"},"object":{"metadata":{"name":"shop"},"data":{"a":"` + mask + `"}},"oldObject":{"data":{"a":"` + mask + `"}}}}`,
		},
		"admission review in YAML": {
			"request:\n  kind:\n    kind: Secret\n    version: v1\n  object:\n    stringData:\n      a: " + needle + "\n  operation: CREATE\n",
			"request:\n  kind:\n    kind: Secret\n    version: v1\n  object:\n    stringData:\n      a: " + mask + "\n  operation: CREATE\n",
		},
		"JSON patch": {
			`kubectl patch secret shop -p='[{"op":"replace","path":"/data/a","value":"` + needle + `"},{"op":"add","path":"/metadata/labels/a","value":"visible"}]'`,
			`kubectl patch secret shop -p='[{"op":"replace","path":"/data/a","value":"` + mask + `"},{"op":"add","path":"/metadata/labels/a","value":"visible"}]'`,
		},
		"JSON patch of all data": {
			`{"resource":"secrets","patch":[{"value":{"a":"` + needle + `"},"path":"/stringData","op":"add"}]}`, `{"resource":"secrets","patch":[{"value":"` + mask + `","path":"/stringData","op":"add"}]}`,
		},
		"%v":  {fmt.Sprintf("got %v, want none", shop), "got {{Secret v1} {shop map[" + mask + "]} map[" + mask + "] map[" + mask + "] Opaque}, want none"},
		"%+v": {fmt.Sprintf("got %+v", &shop), "got &{TypeMeta:{Kind:Secret APIVersion:v1} ObjectMeta:{Name:shop Labels:map[app:shop]} Data:map[" + mask + "] StringData:map[" + mask + "] Type:Opaque}"},
		"String": {
			"&Secret{ObjectMeta:{shop},Data:map[string][]byte{a: " + numbers + ",},Type:Opaque,StringData:map[string]string{c: " + needle + ",},Immutable:nil,}",
			"&Secret{ObjectMeta:{shop},Data:map[string][]byte{" + mask + "},Type:Opaque,StringData:map[string]string{" + mask + "},Immutable:nil,}",
		},
		"%#v": {
			`v1.Secret{Data:map[string][]uint8{"a":[]uint8{0x6e, 0x65}}, StringData:map[string]string{"c":"` + needle + `} \" x"}, Type:"Opaque"}`,
			`v1.Secret{Data:map[string][]uint8{` + mask + `}, StringData:map[string]string{` + mask + `}, Type:"Opaque"}`,
		},
		"%v without a type": {
			"got &{map[apiVersion:v1 data:map[a:" + needle + " b:x]y] immutable:true kind:Secret metadata:map[name:shop] stringData:map[c:" + needle + "] type:Opaque]}",
			"got &{map[apiVersion:v1 data:map[" + mask + "] immutable:true kind:Secret metadata:map[name:shop] stringData:map[" + mask + "] type:Opaque]}",
		},
		"%v of a list without a type": {
			"map[items:[map[apiVersion:v1 data:map[color:green] kind:ConfigMap] map[apiVersion:v1 data:map[a:" + needle + "] kind:Secret metadata:map[name:shop]]] kind:List]",
			"map[items:[map[apiVersion:v1 data:map[color:green] kind:ConfigMap] map[apiVersion:v1 data:map[" + mask + "] kind:Secret metadata:map[name:shop]]] kind:List]",
		},
		"%v without a type, with a cut head": {"te data:map[a:" + needle + "] kind:Secret metadata:map[]]", "te data:map[" + mask + "] kind:Secret metadata:map[]]"},
		"names of Python": {
			`{'api_version': 'v1', 'kind': 'Secret', 'data': None, 'string_data': {'a': '` + needle + `'}}`, `{'api_version': 'v1', 'kind': 'Secret', 'data': "` + mask + `", 'string_data': {'a': "` + mask + `"}}`,
		},
		"audit event": {
			`{"kind":"Event","verb":"patch","objectRef":{"resource":"secrets","name":"shop"},"requestObject":{"stringData":{"a":"` + needle + `"}},"responseObject":{"data":{"a":"` + needle + `"}}}`,
			`{"kind":"Event","verb":"patch","objectRef":{"resource":"secrets","name":"shop"},"requestObject":{"stringData":{"a":"` + mask + `"}},"responseObject":{"data":{"a":"` + mask + `"}}}`,
		},
		"%v that is cut":         {fmt.Sprintf("{{Secret v1} {shop} map[a:%s", strings.TrimSuffix(numbers, "]")), "{{Secret v1} {shop} map[" + mask},
		"head cut in a value":    {needle + "\n  b: " + needle + "\nkind: Secret\n" + head, mask + "\nkind: Secret\n" + head},
		"head cut in the last":   {needle + "==\nkind: Secret\n" + head, mask + "\nkind: Secret\n" + head},
		"head cut before a line": {"  b: |\n    " + needle + "\n\n    " + needle + "\nkind: Secret\r\n" + head, mask + "\nkind: Secret\r\n" + head},
		"head of a list's item":  {"    b: " + needle + "\n    c: " + needle + "\n  kind: Secret\n  metadata:\n    name: shop\n", mask + "\n  kind: Secret\n  metadata:\n    name: shop\n"},
		"head cut in JSON": {
			needle + "\",\n        \"b\": \"" + needle + "\"\n    },\n    \"kind\": \"Secret\",\n    \"type\": \"Opaque\"\n}\n", mask + "\n    \"kind\": \"Secret\",\n    \"type\": \"Opaque\"\n}\n",
		},
	} {
		got := m.Mask(c.text)
		if got != c.want || m.Mask(got) != got {
			t.Errorf("%s: %q becomes\n     %q, again\n     %q,\nwant %q", name, c.text, got, m.Mask(got), c.want)
		}
		if strings.Contains(got, needle) || strings.Contains(got, strings.Trim(numbers, "[]")) {
			t.Errorf("%s: the masked text has the needle: %q", name, got)
		}
	}
}

// secret has the fields of a Secret that its printed forms show.
type (
	secret struct {
		TypeMeta
		ObjectMeta
		Data       map[string][]byte
		StringData map[string]string
		Type       string
	}
	TypeMeta   struct{ Kind, APIVersion string }
	ObjectMeta struct {
		Name   string
		Labels map[string]string
	}
)

func TestWhatIsNoSecretStays(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{Groups: []string{"kubernetes"}})
	for _, text := range []string{
		"apiVersion: v1\ndata:\n  color: green\nkind: ConfigMap\n",
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"color":"green"}}`,
		"involvedObject:\n  kind: Secret\n  name: shop\nmessage: secret \"shop\" not found\n",
		`{"involvedObject":{"kind":"Secret","name":"shop"},"reason":"Failed"}`,
		`level=error kind="Secret" msg="not found"`,
		"kind: SealedSecret\nspec:\n  data:\n    color: green\n",
		"func f() {\n  if x { return }\n}\nkind of Secret: none\n",
		`{"a":"b"`, "{ don't", "{\n{\n{", "kind: Secret\nmetadata:\n  name: shop\ntype: Opaque\n",
		"the kind: Secret is missing", "kind: Secret\ndata: {}\n", "kind: Secret\ndata:\n", "kind: Secret\ndata: null\n",
		`{"kind":"AdmissionReview","request":{"kind":{"kind":"ConfigMap"},"object":{"data":{"color":"green"}}}}`,
		`the secret is fine: [{"op":"replace","path":"/metadata/data","value":"green"},{"path":"/data","value":"green"}]`,
		`{"kind":"Event","objectRef":{"resource":"configmaps","name":"shop"},"requestObject":{"data":{"color":"green"}}}`,
		"map[apiVersion:v1 data:map[color:green] kind:ConfigMap]\nmap[apiVersion:v1 kind:Secret metadata:map[name:shop]]\nmap[apiVersion:v1 data:map[color:green] kind:ConfigMap]",
		`{TypeMeta:{Kind:ConfigMap APIVersion:v1} Data:map[color:green]}`, "{{ConfigMap v1} {shop} map[color:green]}\n{{Secret v1} {shop} map[]}\nmap[color:green]",
		"apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\n", "the object:\nkind: Secret\n", "- involvedObject:\n    kind: Secret\n    name: shop\n",
		"items:\n  color: green\nkind: Secret\n", "color: green\n\nsize: large\nkind: Secret\n",
		"failed to mount kind: Secret in pod\n---\nkind: ConfigMap\ndata:\n  color: green\n", "kind: Secret\ndata:\nimmutable: true\ntype: Opaque\n",
	} {
		if diff := cmp.Diff(text, m.Mask(text)); diff != "" {
			t.Errorf("Mask(%q) changes it (-want +got):\n%s", text, diff)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("Tocsin", 8)))
	for name, cases := range map[string]map[string]string{
		"api_key":                    {"authkey: abcdefghij-klmnopqrst end": "authkey: [MASKED_API_KEY] end", "monkey: abcdefghijklmnopqrstuvw": "", "cache key: abcdefghijklmnopqrstuvw": ""},
		"password":                   {"PG_PWD is unset": "", "compass: northwest": ""},
		"certificate":                {"a -----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE----- b": "a [MASKED_CERTIFICATE] b", "a -----BEGIN CERTIFICATE-----\nMIIB": "a [MASKED_CERTIFICATE]"},
		"certificate_authority_data": {"certificate-authority-data: " + b64 + "\nserver: x": "certificate-authority-data: [MASKED_CERTIFICATE_AUTHORITY_DATA]\nserver: x", `"caBundle": "` + b64 + `"`: `"caBundle": "[MASKED_CERTIFICATE_AUTHORITY_DATA]"`},
		"token":                      {"tokens: 12": ""},
		"email":                      {"to ada.l+x@mail.example.com.": "to [MASKED_EMAIL].", "<ada@example.com>, bob@example.org": "<[MASKED_EMAIL]>, [MASKED_EMAIL]", "a@b": "", "x@1.2": "", "image@sha256:abc": ""},
		"ssh_key":                    {"key ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGr ada": "key [MASKED_SSH_KEY] ada", "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTI= x": "[MASKED_SSH_KEY] x", "ssh-agent is off": ""},
		"base64_secret":              {"a " + b64 + " b": "a [MASKED_BASE64_SECRET] b", "short aGVsbG8=": ""},
		"base64_short":               {"a: aGVsbG8=\nb: c\n": "a: [MASKED_BASE64_SHORT]\nb: c\n", "kind: Secret": "", "at 10:00 it": ""},
		"private_key":                {"word": ""},
		"secret_key":                 {"word": ""},
		"aws_access_key":             {"word": ""},
		"aws_secret_key":             {"word": ""},
		"github_token":               {"word": ""},
		"slack_token":                {"word": ""},
		"kubernetes_secret":          {"word": ""},
	} {
		m := newMasker(t, masking.Config{Patterns: []string{name}})
		for text, want := range cases {
			if want == "" {
				want = text
			}
			if got := m.Mask(text); got != want {
				t.Errorf("%s: Mask(%q) = %q, want %q", name, text, got, want)
			}
		}
	}
}

// What redaction masks first never reaches these patterns, so no value shows which one took it.
func TestAPatternLeavesNoSecret(t *testing.T) {
	t.Parallel()
	const long = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
	for name, texts := range map[string][]string{
		"api_key":        {"STRIPE_API_KEY=" + long, `{\"apiKey\": \"` + long + `\"}`},
		"password":       {"password: " + long, "db_pwd = '" + long + "'", "PASS=" + long},
		"token":          {"auth-token: " + long, `"jwt":"` + long + `"`, "bearer: " + long},
		"private_key":    {"private-key: " + long},
		"secret_key":     {"SECRET_KEY=" + long},
		"aws_access_key": {"AKIA" + strings.ToUpper(long[:16])},
		"aws_secret_key": {"aws_secret_access_key=" + long},
		"github_token":   {"ghp_" + long[:36], "ghs_" + long[:36]},
		"slack_token":    {"xoxb-" + long, "xoxe-" + long},
	} {
		m := newMasker(t, masking.Config{Patterns: []string{name}})
		for _, text := range texts {
			if got := m.Mask(text); strings.Contains(got, long[4:14]) || strings.Contains(got, strings.ToUpper(long[4:14])) {
				t.Errorf("%s: Mask(%q) = %q, want it without the secret", name, text, got)
			}
		}
	}
}

func TestCustomPatterns(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{Groups: []string{"security"}, Custom: []masking.Custom{{Name: "ticket", Pattern: `CUSTOM_.*`}, {Name: "Word", Pattern: `[A-Z]{4,}`}}})
	for text, want := range map[string]string{
		"a CUSTOM_1 b\nc":               "a [MASKED_TICKET]\nc",
		"HELLO ada@example.com":         "[MASKED_WORD] [MASKED_EMAIL]",
		"CUSTOM_x ada@example.com WORD": "[MASKED_TICKET]",
	} {
		if got := m.Mask(text); got != want {
			t.Errorf("Mask(%q) = %q, want %q", text, got, want)
		}
		if got := m.Mask(want); got != want {
			t.Errorf("Mask(%q) = %q, want no change", want, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := masking.New(masking.Config{
		Groups: []string{"galaxy"}, Patterns: []string{"pin"},
		Custom: []masking.Custom{{Name: "a b", Pattern: "x"}, {Name: "open", Pattern: "("}, {Name: "empty", Pattern: "x*"}},
	})
	for _, want := range []error{masking.ErrGroup, masking.ErrPattern, masking.ErrCustom} {
		if !errors.Is(err, want) {
			t.Errorf("New failed with %v, want %v", err, want)
		}
	}
	for _, want := range []string{"galaxy", "pin", "a b", "open", "empty"} {
		if err == nil || !strings.Contains(err.Error(), `"`+want+`"`) {
			t.Errorf("New failed with %v, want it to name %q", err, want)
		}
	}
	if _, err := masking.New(masking.Config{Custom: make([]masking.Custom, masking.MaxCustom+1)}); !errors.Is(err, masking.ErrCustom) {
		t.Errorf("New with %d custom patterns: %v, want %v", masking.MaxCustom+1, err, masking.ErrCustom)
	}
}

func TestDigestIdentifiesTheConfiguration(t *testing.T) {
	t.Parallel()
	same := []masking.Config{{Groups: []string{"basic"}}, {Patterns: []string{"password", "api_key", "password"}}, {Groups: []string{"basic"}, Patterns: []string{"kubernetes_secret"}}}
	want := newMasker(t, same[0]).Digest()
	for _, c := range same {
		if got := newMasker(t, c).Digest(); got != want {
			t.Errorf("Digest of %+v = %s, want %s", c, got, want)
		}
	}
	seen := map[string]string{}
	for _, c := range []masking.Config{{}, {Groups: []string{"basic"}}, {Groups: []string{"all"}}, {Custom: []masking.Custom{{Name: "x", Pattern: "a"}}}, {Custom: []masking.Custom{{Name: "x", Pattern: "b"}}}} {
		d := newMasker(t, c).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("Digest of %+v = %s, want another than of %s", c, d, other)
		}
		seen[d] = fmt.Sprintf("%+v", c)
	}
}

func TestNamesAndGroups(t *testing.T) {
	t.Parallel()
	if got := len(masking.Names()); got != 16 {
		t.Errorf("there are %d names, want the 15 patterns and kubernetes_secret: %q", got, masking.Names())
	}
	for _, group := range masking.Groups() {
		newMasker(t, masking.Config{Groups: []string{group}})
	}
	newMasker(t, masking.Config{Patterns: masking.Names()})
}

func TestTextsThatAreTooLong(t *testing.T) {
	t.Parallel()
	if got := newMasker(t, masking.Config{}).Mask(strings.Repeat("a", masking.MaxText+1)); got != masking.Withheld {
		t.Errorf("Mask = %.80q, want %q", got, masking.Withheld)
	}
}

var pieces = []string{
	"a", "B", "é", "\xff", " ", "  ", "\n", "\n", "\n  ", "\n- ", "\t", `\n`, `\`, `\"`, `"`, `"`, "'", ":", ": ", ",", "{", "}", "[", "]", "|", "#", "---\n", "\n---\n", "? ", "&", "!", "!!str ",
	"kind", "kind: Secret", "kind: Secret\n", `"kind":"Secret"`, `\"kind\":\"Secret\"`, "kind: SecretList\n", "data", "data:", "data:\n  ", `"data":{`, "stringData:\n", "apiVersion: v1\n", "items:\n", `"items":[`, "metadata:", "annotations:",
	"kubectl.kubernetes.io/last-applied-configuration: ", "password: ", "token=", "[REDACTED]", "[REDACTED:jwt]", "[MASKED_EMAIL]", masking.SecretData, masking.Withheld, "ada@example.com", "aGVsbG8=", "-----BEGIN ", "-----END ", "ssh-rsa AAAA", "AKIA",
}

func someText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.StringN(0, 8, 16)), 0, 24).Draw(t, "pieces"), "")
	})
}

func someMasker(t *testing.T) []*masking.Masker {
	return []*masking.Masker{
		newMasker(t, masking.Config{}), newMasker(t, masking.Config{Groups: []string{"all"}}),
		newMasker(t, masking.Config{Groups: []string{"security"}, Custom: []masking.Custom{{Name: "x", Pattern: "[A-Z]+"}, {Name: "y", Pattern: "a.*"}}}),
	}
}

func TestMaskingTwiceIsMaskingOnce(t *testing.T) {
	t.Parallel()
	maskers := someMasker(t)
	rapid.Check(t, func(t *rapid.T) {
		text := someText().Draw(t, "text")
		for i, m := range maskers {
			once := m.Mask(text)
			if twice := m.Mask(once); twice != once {
				t.Fatalf("masker %d: Mask = %q, masked again %q, want no change", i, once, twice)
			}
			if utf8.ValidString(text) && !utf8.ValidString(once) {
				t.Fatalf("masker %d: Mask = %q, want valid UTF-8", i, once)
			}
		}
	})
}

// mark is a part of every secret.
const mark = "n33dleZwo"

// secretObject is a random Secret whose values all have the needle.
func secretObject(t *rapid.T) map[string]any {
	value := rapid.Custom(func(t *rapid.T) any {
		free := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a: b\n", "\n\n", "kind: Secret\n", "---\n", `{"a":"`, "'", `"`, "# ", "- ", "\t", "a\n b\n", "\u2028", "\r"}))
		text := free.Draw(t, "left") + mark + free.Draw(t, "right") + mark
		if rapid.Bool().Draw(t, "encoded") {
			return base64.StdEncoding.EncodeToString([]byte(text)) + mark
		}
		return text
	})
	values := rapid.MapOfN(rapid.StringMatching(`[a-z][a-z.A-Z_-]{0,8}`), value, 1, 4)
	o := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"app": "shop"}}}
	if rapid.Bool().Draw(t, "hasData") {
		o["data"] = values.Draw(t, "data")
	}
	if rapid.Bool().Draw(t, "hasStringData") {
		o["stringData"] = values.Draw(t, "stringData")
	}
	if rapid.Bool().Draw(t, "applied") {
		applied, _ := json.Marshal(map[string]any{"kind": "Secret", "data": values.Draw(t, "applied data")})
		o["metadata"] = map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(applied) + "\n", "a": "b"}}
	}
	return o
}

// surrounded returns random Secrets as YAML or JSON, in a list or other text. In escaped text
// they are a string of JSON.
func surrounded(t *rapid.T, escaped bool) string {
	var o any = secretObject(t)
	if rapid.Bool().Draw(t, "in a list") {
		o = map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{map[string]any{"kind": "ConfigMap", "data": map[string]any{"color": "green"}}, o, secretObject(t)}}
	}
	var text string
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		encoded, _ := json.Marshal(o)
		text = string(encoded)
	case 1:
		encoded, _ := json.MarshalIndent(o, "", strings.Repeat(" ", rapid.IntRange(1, 4).Draw(t, "indent")))
		text = string(encoded)
	default:
		var b strings.Builder
		e := yaml.NewEncoder(&b)
		e.SetIndent(rapid.IntRange(2, 6).Draw(t, "indent"))
		if err := e.Encode(o); err != nil {
			t.Skip(err)
		}
		text = b.String()
	}
	switch rapid.IntRange(0, 3).Draw(t, "around") {
	case 0:
		text = "Here it is:\n" + text + "\nThat was it.\n"
	case 1:
		text = "kind: ConfigMap\ndata:\n  color: green\n---\n" + text + "\n---\nkind: Pod\n"
	case 2:
		text = "  " + strings.ReplaceAll(text, "\n", "\n  ")
	}
	if escaped {
		encoded, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
		text = string(encoded)
	}
	return text
}

func TestANeedleNeverSurvives(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{Groups: []string{"kubernetes"}})
	rapid.Check(t, func(t *rapid.T) {
		text := surrounded(t, rapid.IntRange(0, 3).Draw(t, "escaped") == 0)
		if got := m.Mask(text); strings.Contains(got, mark) {
			t.Fatalf("Mask(%q) = %q, want it without %q", text, got, mark)
		}
	})
}

func TestANeedleNeverSurvivesACut(t *testing.T) {
	t.Parallel()
	m := newMasker(t, masking.Config{})
	rapid.Check(t, func(t *rapid.T) {
		text := surrounded(t, rapid.Bool().Draw(t, "escaped"))
		text = text[:rapid.IntRange(0, len(text)).Draw(t, "length")]
		if got := m.Mask(text); strings.Contains(got, mark) {
			t.Fatalf("Mask(%q) = %q, want it without %q", text, got, mark)
		}
	})
}

var hostile = []string{
	"{", "[", "}", "]", `{"`, `{"a":`, `"`, `'`, "{'", "- ", "-\n", "a:\n ", "kind: Secret\n", "data:\n  a: \"", "data:\n", "data: {", "data:\n a: '", "kind: Secret\ndata:\n  a: '\n", `{"kind":"Secret","data":{`, `"kind":"Secret"`, `{"items":[`, `"\"kind\":\"Secret\"`,
	`"{\"Secret`, ":", "=", "key:", "key: ", "@", "a@", "a.@", "-----BEGIN ", "-----END ", "ssh-", "ssh-rsa ", "AKIA", "a", "A", "aaaa ", ": aaaa\n", ":  ", "Secret", "kind:Secret", "\\", "ata:", "[MASKED_X]", "[REDACTED:", "? a\n", "{\"metadata\":", "\n", "---\n", " ", "\u2028", "a:\r", "kind: Secret\u2028",
	"{{Secret v1}", "{{Secret v1} map[", "kind:Secret ", "data:map[ kind:Secret ", "map[apiVersion:v1 data:map[a] kind:Secret stringData:map[", "map[a] ", "Secret{Data:map[string]string{\"\\", "Kind:Secret Data:map[", "\n  kind: Secret", `{"op":"x","path":"/data","value":"secret"},`, `{"kind":{"kind":"Secret"},"object":{"data":{"a":"b"`,
}

// Linear time is milliseconds here, quadratic time many seconds. The bound leaves room for a slow
// machine and the race detector; what another process delays once is tried again.
func TestHostileTextTakesLinearTime(t *testing.T) {
	t.Parallel()
	const size, most = 256 << 10, 5 * time.Second
	m := newMasker(t, masking.Config{Groups: []string{"all"}})
	for _, piece := range hostile {
		for _, before := range []string{"", "kind: Secret\ndata:\n", strings.Repeat(`{"a":`, 990), `{"kind":"Secret","data":{"a":`, "{{Secret v1} "} {
			text := before + strings.Repeat(piece, size/len(piece))
			if took := least(most, func() { m.Mask(text) }); took > most {
				t.Errorf("%d bytes of %q behind %q took %v, want at most %v", size, piece, before, took, most)
			}
		}
	}
	var deeper strings.Builder
	for i := range 700 {
		deeper.WriteString(strings.Repeat(" ", i) + "kind: Secret\n" + strings.Repeat(" ", i) + "data:\n")
	}
	if took := least(most, func() { m.Mask(deeper.String()) }); took > most {
		t.Errorf("objects in objects took %v, want at most %v", took, most)
	}
}

// least returns the shortest time that f takes in up to 3 tries, and of the first that takes no
// longer than enough.
func least(enough time.Duration, f func()) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		f()
		if shortest = min(shortest, time.Since(began)); shortest <= enough {
			break
		}
	}
	return shortest
}

func FuzzMask(f *testing.F) {
	m, err := masking.New(masking.Config{Groups: []string{"all"}})
	if err != nil {
		f.Fatal(err)
	}
	for _, piece := range pieces {
		f.Add("kind: Secret\ndata:\n  a: " + piece)
	}
	for _, piece := range hostile {
		f.Add(piece + piece)
	}
	f.Add(`{"kind":"Secret","data":{"a":"b"}}`)
	f.Add("kind: Secret\nstringData:\n  a: |\n    b\ntype: Opaque\n")
	f.Fuzz(func(t *testing.T, text string) {
		once := m.Mask(text)
		if twice := m.Mask(once); twice != once {
			t.Errorf("%q becomes %q, masked again %q, want no change", text, once, twice)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: shop-7d9\n  namespace: shop\nspec:\n  containers:\n  - name: shop\n    image: registry.example/shop:1.4.2\n    env:\n    - name: LOG_LEVEL\n      value: debug\nstatus:\n  phase: Running\n---\n"
	secret := "apiVersion: v1\ndata:\n  a: aGVsbG8=\n  b: d29ybGQ=\nkind: Secret\nmetadata:\n  name: shop\n---\n"
	for name, c := range map[string]struct {
		groups []string
		text   string
	}{
		"log line":             {[]string{"security"}, "2026-11-22T10:00:00Z INFO request served path=/api/users status=200 duration=12ms"},
		"64K pods":             {[]string{"kubernetes"}, strings.Repeat(pod, 64<<10/len(pod))},
		"64K pods, all":        {[]string{"all"}, strings.Repeat(pod, 64<<10/len(pod))},
		"64K secrets":          {[]string{"kubernetes"}, strings.Repeat(secret, 64<<10/len(secret))},
		"8M log, security":     {[]string{"security"}, strings.Repeat("2026-11-22T10:00:00Z INFO request served path=/api/users status=200\n", masking.MaxText/68)},
		"8M dumps, security":   {[]string{"security"}, strings.Repeat("{{Secret v1} {shop map[app:shop]} map[a:[104 105]] Opaque} ", masking.MaxText/60)},
		"8M patches, security": {[]string{"security"}, strings.Repeat(`{"op":"add","path":"/data/secret","value":"x"},`, masking.MaxText/48)},
		"8M secrets, security": {[]string{"security"}, strings.Repeat(secret, masking.MaxText/len(secret))},
	} {
		b.Run(name, func(b *testing.B) {
			m := newMasker(b, masking.Config{Groups: c.groups})
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				m.Mask(c.text)
			}
		})
	}
}
