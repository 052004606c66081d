package notify

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"
)

// maxSlack is the longest text of a section, in characters, as it is sent.
const maxSlack = 3000

// slackWebhook posts to an incoming webhook of Slack, or of what speaks like it.
type slackWebhook struct {
	poster
	url string
}

func newSlack(url string) *slackWebhook { return &slackWebhook{poster: newPoster(), url: url} }

func (s *slackWebhook) deliver(ctx context.Context, d delivery) error {
	m := slackMessage(d)
	return s.tries(ctx, func(ctx context.Context) error {
		err := slack.PostWebhookCustomHTTPContext(ctx, s.url, s.client, m)
		var limited *slack.RateLimitedError
		var status slack.StatusCodeError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &limited):
			return refused(http.StatusTooManyRequests)
		case errors.As(err, &status):
			return refused(status.Code)
		default:
			return unreached(err)
		}
	})
}

// slackMessage is what Slack shows: the notice, and below it in small print who
// says it. Nothing in it is a mention, a link or a preview. Text stands beside
// the blocks for what shows none, such as the phone's own notifications.
func slackMessage(d delivery) *slack.WebhookMessage {
	text := escapeSlack("["+string(d.Level)+"] "+d.Context+": "+d.Message, maxSlack)
	below := d.Client
	if more := d.more(); more != "" {
		below += " - " + more
	}
	literal := func(text string) *slack.TextBlockObject {
		// Verbatim: else Slack makes links of what looks like one.
		return &slack.TextBlockObject{Type: slack.MarkdownType, Text: text, Verbatim: true}
	}
	blocks := []slack.Block{slack.NewSectionBlock(literal(text), nil, nil)}
	if below = escapeSlack(below, maxSlack); below != "" {
		blocks = append(blocks, slack.NewContextBlock("", literal(below)))
	}
	unfurl := false
	return &slack.WebhookMessage{
		Text: text, Blocks: &slack.Blocks{BlockSet: blocks}, Parse: "none", UnfurlLinks: &unfurl, UnfurlMedia: &unfurl,
	}
}

// literalMarkup is for what takes &, < and > for its own, and nothing else.
var literalMarkup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escapeSlack makes text literal by Slack's rules. What is left has at most limit
// characters, and no half of an escape.
func escapeSlack(text string, limit int) string {
	whole := literalMarkup.Replace(text)
	if utf8.RuneCountInString(whole) <= limit {
		return whole
	}
	var b strings.Builder
	length := 0
	for _, r := range text {
		shown := literalMarkup.Replace(string(r))
		if length += utf8.RuneCountInString(shown); length > limit-1 {
			break
		}
		b.WriteString(shown)
	}
	return b.String() + "…"
}
