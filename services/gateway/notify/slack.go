package notify

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack"
)

// maxSlackText is the longest text of a section, in characters, after escaping.
const maxSlackText = 3000

// slackWebhook posts to an incoming webhook of Slack or of a compatible service.
type slackWebhook struct {
	poster
	url string
}

func newSlack(url string) *slackWebhook { return &slackWebhook{poster: newPoster(), url: url} }

func (s *slackWebhook) deliver(ctx context.Context, d delivery) error {
	m := slackMessage(d)
	return s.retry(ctx, func(ctx context.Context) error {
		err := slack.PostWebhookCustomHTTPContext(ctx, s.url, s.client, m)
		var limited *slack.RateLimitedError
		var status slack.StatusCodeError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &limited):
			return statusError(http.StatusTooManyRequests)
		case errors.As(err, &status):
			return statusError(status.Code)
		default:
			return requestError(err)
		}
	})
}

// slackMessage returns the message with the notice, and with the client in small print below.
// It has no mentions, links or previews. Its Text is for displays without blocks, such as
// notifications on a phone.
func slackMessage(d delivery) *slack.WebhookMessage {
	text := escapeSlack("["+string(d.Level)+"] "+d.Context+": "+d.Message, maxSlackText)
	footer := d.Client
	if suppressed := d.suppressedText(); suppressed != "" {
		footer += " - " + suppressed
	}
	literal := func(text string) *slack.TextBlockObject {
		// Without Verbatim, Slack makes links of what looks like one.
		return &slack.TextBlockObject{Type: slack.MarkdownType, Text: text, Verbatim: true}
	}
	blocks := []slack.Block{slack.NewSectionBlock(literal(text), nil, nil)}
	if footer = escapeSlack(footer, maxSlackText); footer != "" {
		blocks = append(blocks, slack.NewContextBlock("", literal(footer)))
	}
	unfurl := false
	return &slack.WebhookMessage{
		Text: text, Blocks: &slack.Blocks{BlockSet: blocks}, Parse: "none", UnfurlLinks: &unfurl, UnfurlMedia: &unfurl,
	}
}

// markupEscaper escapes &, < and > for markup in which only those have a meaning.
var markupEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escapeSlack escapes text by Slack's rules and cuts it to at most limit characters, never
// inside an escape.
func escapeSlack(text string, limit int) string {
	whole := markupEscaper.Replace(text)
	if utf8.RuneCountInString(whole) <= limit {
		return whole
	}
	var b strings.Builder
	length := 0
	for _, r := range text {
		shown := markupEscaper.Replace(string(r))
		if length += utf8.RuneCountInString(shown); length > limit-1 {
			break
		}
		b.WriteString(shown)
	}
	return b.String() + "…"
}
