package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSlackPayload(t *testing.T) {
	data, err := json.Marshal(slackMessage(sample()))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "slack.json", data)
}

func TestSlackText(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"<!channel>":                 "&lt;!channel&gt;",
		"<@U024BE7LH> <#C1|x>":       "&lt;@U024BE7LH&gt; &lt;#C1|x&gt;",
		"<https://evil.example|bug>": "&lt;https://evil.example|bug&gt;",
		"&lt;!here&gt;":              "&amp;lt;!here&amp;gt;",
	} {
		if got := escapeSlack(text, 100); got != want {
			t.Errorf("escapeSlack(%q) = %q, want %q", text, got, want)
		}
	}
	if got := escapeSlack("ab<c", 6); got != "ab…" {
		t.Errorf("cut to %q, want %q without a part of an escape", got, "ab…")
	}
	if got := escapeSlack("ab<", 6); got != "ab&lt;" {
		t.Errorf("a text that fits is cut to %q, want %q", got, "ab&lt;")
	}
}

// TestSlackFits: Slack refuses a section that is too long.
func TestSlackFits(t *testing.T) {
	d := delivery{Notice: Notice{Message: strings.Repeat("&", MaxMessage), Context: strings.Repeat("<", maxName), Client: strings.Repeat("&", maxName)}}
	m := slackMessage(d)
	if n := utf8.RuneCountInString(m.Text); n > maxSlackText || n < maxSlackText-10 {
		t.Errorf("text has %d characters, want about %d", n, maxSlackText)
	}
}

// FuzzSlackText: of any text, Slack finds nothing to act on, and shows the text.
func FuzzSlackText(f *testing.F) {
	for _, text := range []string{"<!channel>", "&amp;<x|y>", "a\xffb<", "…&", strings.Repeat("<", 50)} {
		f.Add(text, 20)
	}
	back := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
	f.Fuzz(func(t *testing.T, text string, limit int) {
		text = strings.ToValidUTF8(text, "?") // as Clean returns it
		limit = 1 + max(limit, -limit, 0)%5000
		got := escapeSlack(text, limit)
		if strings.ContainsAny(got, "<>") || strings.Contains(back.Replace(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(got, "&amp;", ""), "&lt;", ""), "&gt;", "")), "&") {
			t.Fatalf("escapeSlack = %q, want it literal", got)
		}
		if n := utf8.RuneCountInString(got); n > limit {
			t.Fatalf("escapeSlack has %d characters, want at most %d", n, limit)
		}
		if shown := back.Replace(got); shown != text && !strings.HasPrefix(text, strings.TrimSuffix(shown, "…")) {
			t.Fatalf("%q is shown as %q, want a prefix of it", text, shown)
		}
	})
}
