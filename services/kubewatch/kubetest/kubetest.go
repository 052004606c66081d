// Package kubetest is an API server for tests. It implements lists and watches in JSON, and
// the faults that a test asks for.
//
// It keeps objects in memory, with resourceVersions that count from 1000 on.
package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Path is the path of the events.
const Path = "/api/v1/events"

// Server is one cluster. Its methods are safe for concurrent use.
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	version int
	uid     string
	history []change
	objects map[string][]json.RawMessage // of the other resources, by path
	// compacted is the version up to which everything is forgotten. With inStream, a watch
	// from before gets the error within its stream.
	compacted int
	inStream  bool
	answers   map[string][]Answer
	// patient makes a watch from a future version wait for it.
	patient  bool
	epoch    int
	requests []string
	logs     map[string]string
}

// change is an event at a version, or a raw frame.
type change struct {
	version int
	kind    string
	event   *corev1.Event
	raw     string
}

// Answer replaces the regular answer to a request.
type Answer struct {
	Status int
	// Reason is the reason of the status in the body, such as Forbidden.
	Reason metav1.StatusReason
	Header map[string]string
	// Body replaces the status; with Status 200 it is all that a watch sends.
	Body string
}

// New runs a server until the test ends.
func New(t testing.TB) *Server {
	s := &Server{changed: make(chan struct{}), version: 1000, uid: "cluster-1", objects: map[string][]json.RawMessage{}, answers: map[string][]Answer{}, logs: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseWatches()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Config returns the configuration of a client.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.URL} }

// SetUID changes the uid of the cluster, so that it is another one.
func (s *Server) SetUID(uid string) { s.change(func() { s.uid = uid }) }

// Restore restores the cluster to an older state and ends all watches.
func (s *Server) Restore(version int) {
	s.change(func() {
		s.version = version
		s.history = slices.DeleteFunc(s.history, func(c change) bool { return c.version > version })
		s.epoch++
	})
}

// Patient makes a watch from a version that the cluster has not reached wait silently, as a
// real API server does for events, which have no watch cache.
func (s *Server) Patient() { s.change(func() { s.patient = true }) }

// Event adds an event and returns its resourceVersion. It fills in a missing name, namespace,
// uid or time.
func (s *Server) Event(e corev1.Event) string { return s.put("ADDED", e) }

// Modify changes an event.
func (s *Server) Modify(e corev1.Event) string { return s.put("MODIFIED", e) }

// Delete removes an event, as its expiry does.
func (s *Server) Delete(e corev1.Event) string { return s.put("DELETED", e) }

func (s *Server) put(kind string, e corev1.Event) (version string) {
	s.change(func() { version = s.record(kind, e) })
	return version
}

// record adds a change of an event to the history. The caller holds mu.
func (s *Server) record(kind string, e corev1.Event) string {
	s.version++
	version := strconv.Itoa(s.version)
	if e.Name == "" {
		e.Name = "event-" + version
	}
	if e.UID == "" {
		e.UID = types.UID("uid-" + e.Name)
	}
	if e.Namespace == "" {
		e.Namespace = "default"
	}
	if e.CreationTimestamp.IsZero() {
		e.CreationTimestamp = metav1.Now()
	}
	e.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
	e.ResourceVersion = version
	s.history = append(s.history, change{version: s.version, kind: kind, event: &e})
	return version
}

// Bookmark sends a bookmark to all watches and returns its version.
func (s *Server) Bookmark() (version string) {
	s.change(func() {
		s.version++
		version = strconv.Itoa(s.version)
		s.history = append(s.history, change{version: s.version, kind: "BOOKMARK", event: &corev1.Event{
			TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
		}})
	})
	return version
}

// Frame sends raw bytes to each running watch and ends it.
func (s *Server) Frame(raw string) {
	s.change(func() { s.history = append(s.history, change{version: s.version, kind: "RAW", raw: raw}) })
}

// Compact forgets everything up to now. A watch from before gets an error: with inStream
// within its stream, else by the status of the answer.
func (s *Server) Compact(inStream bool) {
	s.change(func() { s.compacted, s.inStream = s.version, inStream })
}

// Miss ends all watches, adds an event that none of them sends, and forgets everything up to
// it, all at once: a watch from before gets an error by the status of the answer.
func (s *Server) Miss(e corev1.Event) {
	s.change(func() {
		s.record("ADDED", e)
		s.compacted, s.inStream = s.version, false
		s.epoch++
	})
}

// Put adds an object of another resource, such as pods, to the list at a path.
func (s *Server) Put(path string, object any) {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // a type of Kubernetes can be encoded
	}
	s.change(func() {
		s.version++
		s.objects[path] = append(s.objects[path], data)
	})
}

// Log sets the log of a pod's containers.
func (s *Server) Log(namespace, pod, text string) {
	s.change(func() { s.logs[namespace+"/"+pod] = text })
}

// Answer sets the answers to the next requests for a path, one for each request. The verb is
// list, watch or get.
func (s *Server) Answer(verb, path string, answers ...Answer) {
	s.change(func() { s.answers[verb+" "+path] = append(s.answers[verb+" "+path], answers...) })
}

// CloseWatches ends all watches, as servers do from time to time.
func (s *Server) CloseWatches() { s.change(func() { s.epoch++ }) }

// Requests returns the number of requests with a prefix, as in "watch /api/v1/events".
func (s *Server) Requests(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (s *Server) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	verb := "list"
	switch {
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case strings.HasSuffix(path, "/log"), strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4:
		verb = "get"
	}
	s.mu.Lock()
	s.requests = append(s.requests, verb+" "+path)
	answers := s.answers[verb+" "+path]
	uid, text := s.uid, ""
	if parts := strings.Split(path, "/"); len(parts) > 6 {
		text = s.logs[parts[4]+"/"+parts[6]]
	}
	if len(answers) > 0 {
		s.answers[verb+" "+path] = answers[1:]
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case len(answers) > 0:
		sendAnswer(w, answers[0])
	case strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4:
		_, _ = fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"uid":%q}}`, uid)
	case strings.HasSuffix(path, "/log"):
		_, _ = io.WriteString(w, text)
	case verb == "list":
		s.list(w, path)
	default:
		s.watch(w, r)
	}
}

func sendAnswer(w http.ResponseWriter, a Answer) {
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	if a.Body != "" {
		_, _ = io.WriteString(w, a.Body)
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"as requested by the test"}`, a.Reason, a.Status)
}

func (s *Server) list(w http.ResponseWriter, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := slices.Clone(s.objects[path])
	if strings.HasSuffix(path, "/events") {
		items = s.events()
	}
	if items == nil {
		items = []json.RawMessage{}
	}
	resource := path[strings.LastIndexByte(path, '/')+1:]
	version, _, _ := strings.Cut(strings.TrimSuffix(path, "/"+resource), "/namespaces/")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind":       strings.ToUpper(resource[:1]) + strings.TrimSuffix(resource[1:], "s") + "List",
		"apiVersion": strings.TrimPrefix(strings.TrimPrefix(version, "/apis/"), "/api/"),
		"metadata":   map[string]any{"resourceVersion": strconv.Itoa(s.version)},
		"items":      items,
	})
}

// events returns the existing events in their newest form.
func (s *Server) events() []json.RawMessage {
	seen := map[string]bool{}
	var items []json.RawMessage
	for _, c := range slices.Backward(s.history) {
		if c.event == nil || c.kind == "BOOKMARK" || seen[c.event.Name] {
			continue
		}
		seen[c.event.Name] = true
		if c.kind != "DELETED" {
			items = append(items, encode(c.event))
		}
	}
	return items
}

func encode(e *corev1.Event) json.RawMessage {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // an event can be encoded
	}
	return data
}

const gone = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}}` + "\n"

const tooLarge = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,"message":"Too large resource version",` +
	`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}`

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	events := strings.HasSuffix(r.URL.Path, "/events")
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil || r.URL.Query().Get("sendInitialEvents") != "" {
		sendAnswer(w, Answer{Status: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}) // the client then lists
		return
	}
	s.mu.Lock()
	epoch, compacted, inStream, ahead := s.epoch, s.compacted, s.inStream, from > s.version && !s.patient
	next := slices.IndexFunc(s.history, func(c change) bool { return c.version > from })
	if next < 0 {
		next = len(s.history)
	}
	s.mu.Unlock()
	switch {
	case events && from < compacted && !inStream:
		sendAnswer(w, Answer{Status: http.StatusGone, Reason: metav1.StatusReasonExpired})
		return
	case events && from < compacted:
		_, _ = io.WriteString(w, gone)
		return
	case events && ahead:
		sendAnswer(w, Answer{Status: http.StatusGatewayTimeout, Body: tooLarge})
		return
	}
	w.WriteHeader(http.StatusOK)
	for {
		s.mu.Lock()
		changed, ended := s.changed, s.epoch != epoch
		var news []change
		if events && next < len(s.history) {
			news, next = slices.Clone(s.history[next:]), len(s.history)
		}
		s.mu.Unlock()
		if ended {
			return
		}
		for _, c := range news {
			if c.kind == "RAW" {
				_, _ = io.WriteString(w, c.raw)
				return
			}
			_, _ = fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", c.kind, encode(c.event))
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
