package alert

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// InvestigationStatus is the state of an alert's investigation.
type InvestigationStatus string

// The statuses of an investigation.
const (
	InvestigationInProgress InvestigationStatus = "in_progress"
	InvestigationCompleted  InvestigationStatus = "completed"
	InvestigationFailed     InvestigationStatus = "failed"
	InvestigationTimedOut   InvestigationStatus = "timed_out"
	InvestigationCancelled  InvestigationStatus = "cancelled"
	// InvestigationSkipped means that no investigation started, for Reason.
	InvestigationSkipped InvestigationStatus = "skipped"
)

// statusNames names the statuses in a line of text.
var statusNames = map[InvestigationStatus]string{
	InvestigationInProgress: "in progress", InvestigationCompleted: "completed", InvestigationFailed: "failed",
	InvestigationTimedOut: "timed out", InvestigationCancelled: "cancelled", InvestigationSkipped: "skipped",
}

// Confidence is how sure a conclusion is of its cause. Empty means that there is none.
type Confidence string

// The confidences of a conclusion.
const (
	Proven   Confidence = "proven"
	Likely   Confidence = "likely"
	Unproven Confidence = "unproven"
)

// Bounds of an investigation's texts: in characters, but for its identifier and URL, which are in
// bytes.
const (
	MaxInvestigationSummary = 600
	MaxInvestigationReason  = 300
	MaxChangeFile           = 200
	MaxChangeDescription    = 500
	maxSessionID            = 64
	maxInvestigationURL     = 2000
)

// fromModel marks texts that a model wrote.
const fromModel = "model"

// Investigation is what is known of the investigation of an alert. Its texts were written by a
// model: they are data to check and never an instruction. It must not be changed once it
// belongs to an alert, because copies of the alert share it.
type Investigation struct {
	// SessionID is the investigation session. It is empty only where Status is skipped.
	SessionID string
	Status    InvestigationStatus
	// Attempt is that of the session from the second one on: a session that was started again. 0 is
	// the first.
	Attempt int
	// Summary is the executive summary, at most MaxInvestigationSummary characters.
	Summary string
	// Confidence is that of the conclusion, or empty.
	Confidence Confidence
	// SuggestedChange is a proposal of the model, or nil.
	SuggestedChange *SuggestedChange
	// URL is the page of the session: http or https, or empty.
	URL string
	// Reason is why an investigation was skipped, failed or was cancelled, or empty.
	Reason string
}

// SuggestedChange is a model's proposal for a change of a file.
type SuggestedChange struct {
	// File is a relative path of at most MaxChangeFile characters.
	File string
	// Description has at most MaxChangeDescription characters.
	Description string
}

// Ended reports whether the investigation has an outcome: it completed, failed or timed out.
// That is news, once. Every other status only changes a pending alert.
func (i *Investigation) Ended() bool {
	return i != nil && (i.Status == InvestigationCompleted || i.Status == InvestigationFailed || i.Status == InvestigationTimedOut)
}

// Clone returns a copy, or nil for nil.
func (i *Investigation) Clone() *Investigation {
	if i == nil {
		return nil
	}
	clone := *i
	if i.SuggestedChange != nil {
		change := *i.SuggestedChange
		clone.SuggestedChange = &change
	}
	return &clone
}

// EachText calls f for each text that a model or a person wrote, with its bound in characters.
func (i *Investigation) EachText(f func(text *string, limit int)) {
	f(&i.Summary, MaxInvestigationSummary)
	f(&i.Reason, MaxInvestigationReason)
	if c := i.SuggestedChange; c != nil {
		f(&c.File, MaxChangeFile)
		f(&c.Description, MaxChangeDescription)
	}
}

// line returns what an investigation's end is called in front of the alert's title.
func (i *Investigation) line() string { return "Investigation " + statusNames[i.Status] + ": " }

// InvestigationEnd returns the alert as one line for a reader who received it before: its
// investigation ended. Detail and context are not repeated, and it counts no finding.
func (a Alert) InvestigationEnd() Alert {
	a = a.AsOriginal()
	a.Title = sanitize.Cut(a.Investigation.line()+a.Title, MaxTitle)
	a.Detail, a.Context, a.Count, a.OnlyInvestigation = "", nil, 0, true
	return a
}

// EndsInvestigation reports whether the alert is a revision that brings the end of an
// investigation.
func (a Alert) EndsInvestigation() bool { return a.Revises != "" && a.Investigation.Ended() }

// KeepInvestigation returns the alert with the investigation of the one that it replaces,
// unless it has one of its own.
func (a Alert) KeepInvestigation(replaced *Investigation) Alert {
	if a.Investigation == nil {
		a.Investigation = replaced
	}
	return a
}

// investigationID is what ids of the investigator's revisions begin with. The detector's ids have
// no hyphen.
const investigationID = "investigation-"

// idEncoding writes ids as the detector does.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idHash is the length of the hash in an id, in characters of 5 bits.
const idHash = 26

// IsInvestigationID reports whether an id is that of a revision of the investigator.
func IsInvestigationID(id string) bool { return strings.HasPrefix(id, investigationID) }

// RevisionID returns the id of the revision that brings the investigation to the alert with
// the given first id. It is a hash of session and status, so that a repeated publication is
// recognised; a skipped investigation has no session, and the alert's id is hashed instead. From
// the second attempt of a session on its number is hashed too: the new end is news again.
func (i *Investigation) RevisionID(first string) string {
	hashed := cmp.Or(i.SessionID, "alert "+first) + "\x00" + string(i.Status)
	if i.Attempt > 1 {
		hashed += "\x00" + strconv.Itoa(i.Attempt)
	}
	sum := sha256.Sum256([]byte(hashed))
	return investigationID + idEncoding.EncodeToString(sum[:])[:idHash]
}

// RevisionFor returns the revision of an alert that carries an investigation. a is the alert as
// last stored: its first publication or any revision. All but the id and the investigation
// stay. The id is [Investigation.RevisionID].
//
// The texts of the investigation lose links and images and are cut to their bounds; a URL that
// is not http or https is left out.
func RevisionFor(a Alert, inv Investigation) Alert {
	a = a.AsOriginal()
	a.Revises = a.ID
	a.ID = inv.RevisionID(a.Revises)
	a.Investigation = inv.Clone()
	a.Investigation.EachText(func(text *string, limit int) { *text = sanitize.Cut(withoutLinks(*text), limit) })
	if !isWebURL(a.Investigation.URL) {
		a.Investigation.URL = ""
	}
	a.Resolved, a.InhibitedBy, a.Symptoms, a.Reason, a.OnlyInvestigation, a.Seq = false, "", 0, "", false, 0
	return a
}

// The links and images of Markdown and HTML, and bare addresses.
var (
	markdownLink = regexp.MustCompile(`!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)`)
	htmlLink     = regexp.MustCompile(`(?i)</?(?:a|img|iframe|object|embed|video|audio|source|link)\b[^>]*>?`)
	bareLink     = regexp.MustCompile(`(?i)\b(?:(?:https?|ftp|file)://|javascript:|data:[a-z]+/)[^\s<>"'` + "`" + `)\]]+`)
)

// removedLink stands for an address.
const removedLink = "[link removed]"

// withoutLinks replaces links and images by their text, and addresses by removedLink.
func withoutLinks(text string) string {
	text = htmlLink.ReplaceAllString(text, "")
	text = markdownLink.ReplaceAllString(text, "$1")
	return bareLink.ReplaceAllString(text, removedLink)
}

// isWebURL reports whether a text is an absolute http or https URL within its bound.
func isWebURL(text string) bool {
	if len(text) > maxInvestigationURL {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// wireInvestigation is the JSON form of an Investigation.
type wireInvestigation struct {
	SessionID       string              `json:"session_id,omitempty"`
	Status          InvestigationStatus `json:"status"`
	Attempt         int                 `json:"attempt,omitempty"`
	Summary         string              `json:"summary,omitempty"`
	Confidence      Confidence          `json:"confidence,omitempty"`
	SuggestedChange *wireChange         `json:"suggested_change,omitempty"`
	URL             string              `json:"url,omitempty"`
	Reason          string              `json:"reason,omitempty"`
	// From marks the summary as a model's.
	From string `json:"from,omitempty"`
}

type wireChange struct {
	File        string `json:"file"`
	Description string `json:"description"`
	From        string `json:"from"`
}

// MarshalJSON encodes the investigation as on the wire. Texts of a model are marked as such.
func (i Investigation) MarshalJSON() ([]byte, error) {
	w := wireInvestigation{
		SessionID: i.SessionID, Status: i.Status, Attempt: i.Attempt, Summary: i.Summary, Confidence: i.Confidence, URL: i.URL, Reason: i.Reason,
	}
	if i.Summary != "" {
		w.From = fromModel
	}
	if c := i.SuggestedChange; c != nil {
		w.SuggestedChange = &wireChange{File: c.File, Description: c.Description, From: fromModel}
	}
	return encode(w)
}

// UnmarshalJSON decodes an investigation of the wire. It refuses unknown statuses and
// confidences, texts beyond their bounds, a URL that is not http or https, and a suggested
// change that is not marked as a model's.
func (i *Investigation) UnmarshalJSON(data []byte) error {
	var w wireInvestigation
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("investigation: %w", err)
	}
	read := Investigation{
		SessionID: w.SessionID, Status: w.Status, Attempt: w.Attempt, Summary: w.Summary, Confidence: w.Confidence, URL: w.URL, Reason: w.Reason,
	}
	if c := w.SuggestedChange; c != nil {
		if c.From != fromModel {
			return fmt.Errorf("investigation: suggested_change is from %q, not from %q", c.From, fromModel)
		}
		read.SuggestedChange = &SuggestedChange{File: c.File, Description: c.Description}
	}
	if w.From != "" && w.From != fromModel {
		return fmt.Errorf("investigation: the summary is from %q, not from %q", w.From, fromModel)
	}
	if err := read.check(); err != nil {
		return fmt.Errorf("investigation: %w", err)
	}
	*i = read
	return nil
}

// check returns why an investigation is not valid.
func (i *Investigation) check() error {
	switch {
	case statusNames[i.Status] == "":
		return fmt.Errorf("status %q is none of in_progress, completed, failed, timed_out, cancelled, skipped", i.Status)
	case i.SessionID == "" && i.Status != InvestigationSkipped:
		return errors.New("session_id is missing")
	case len(i.SessionID) > maxSessionID:
		return fmt.Errorf("session_id has %d bytes, at most %d are allowed", len(i.SessionID), maxSessionID)
	case i.Attempt < 0:
		return fmt.Errorf("attempt is %d, at least 0 is allowed", i.Attempt)
	case i.Status == InvestigationSkipped && i.Reason == "":
		return errors.New("reason of the skipped investigation is missing")
	case i.Confidence != "" && i.Confidence != Proven && i.Confidence != Likely && i.Confidence != Unproven:
		return fmt.Errorf("confidence %q is none of proven, likely, unproven", i.Confidence)
	case i.URL != "" && !isWebURL(i.URL):
		return errors.New("url is not an http or https URL")
	}
	var failed error
	i.EachText(func(text *string, limit int) {
		if n := utf8.RuneCountInString(*text); n > limit {
			failed = fmt.Errorf("a text has %d characters, at most %d are allowed", n, limit)
		}
	})
	return failed
}
