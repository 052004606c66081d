package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// subscribeArgs are the arguments of events_subscribe.
type subscribeArgs struct {
	Cluster           string          `json:"cluster" max:"253" jsonschema:"Default: the only watched cluster"`
	Mode              kubernetes.Mode `json:"mode" enum:"mode" default:"events"`
	Namespaces        []string        `json:"namespaces" max:"100" elements:"names of namespaces" jsonschema:"Only these; _cluster stands for objects without one, such as nodes"`
	LabelSelector     string          `json:"labelSelector" max:"1024" jsonschema:"Labels of the involved object, as in kubectl"`
	InvolvedKind      string          `json:"involvedKind" max:"63"`
	InvolvedName      string          `json:"involvedName" max:"253"`
	InvolvedNamespace string          `json:"involvedNamespace" max:"253"`
	Type              string          `json:"type" enum:"event_type"`
	Reason            string          `json:"reason" max:"128" jsonschema:"Prefix of the reason"`
}

// subscribe starts a subscription with the messages from now on.
func (s *server) subscribe(ctx context.Context, args subscribeArgs, c call) (answer, error) {
	s.alerts.WaitForPast(ctx)
	known := s.awaitServices(ctx, busclient.RequestTimeout, s.toolset.kubernetes)
	made, degraded, err := s.kubernetes.Subscribe(ctx, args.Cluster, args.Mode, kubernetes.Filters{
		Namespaces: args.Namespaces, LabelSelector: args.LabelSelector,
		InvolvedKind: args.InvolvedKind, InvolvedName: args.InvolvedName, InvolvedNamespace: args.InvolvedNamespace,
		Type: args.Type, Reason: args.Reason,
	}, c.answered)
	if errors.Is(err, kubernetes.ErrNoCluster) && !known {
		err = busclient.ErrNoAnswer
	}
	return encoded(struct {
		kubernetes.SubscriptionInfo
		Degraded bool   `json:"degraded,omitempty"`
		Note     string `json:"note,omitempty"`
	}{made, degraded != "", s.subscribeNote(args.Mode, degraded)}, err)
}

// subscribeNote returns why no notifications will come, or "".
func (s *server) subscribeNote(mode kubernetes.Mode, degraded string) string {
	var notes []string
	if !s.peer().Unsolicited {
		notes = append(notes, "The protocol "+version20260728+" forbids unsolicited messages, so this client gets no notifications of this subscription; observe has the alerts about faults.")
	}
	if mode.Level().Rank() < int(s.minRank.Load()) {
		notes = append(notes, fmt.Sprintf("Mode %s delivers at level %s, and this client's logging level is higher, so it gets no notifications: set logging/setLevel to %s or below.", mode, mode.Level(), mode.Level()))
	}
	if degraded != "" {
		notes = append(notes, "This cluster sends nothing for now: "+degraded+".")
	}
	return strings.Join(notes, " ")
}

// unsubscribeArgs are the arguments of events_unsubscribe.
type unsubscribeArgs struct {
	SubscriptionID string `json:"subscriptionId" max:"2048" required:"true"`
}

// unsubscribe ends a subscription of this session.
func (s *server) unsubscribe(ctx context.Context, args unsubscribeArgs, _ call) (answer, error) {
	if args.SubscriptionID == "" {
		return nil, errors.New("subscriptionId must be the id of a subscription of this session: " + toolListSubscriptions + " lists them")
	}
	found, err := s.kubernetes.Unsubscribe(ctx, args.SubscriptionID)
	if !found && err == nil {
		return nil, fmt.Errorf("subscriptionId %s is not found among the subscriptions of this session: %s lists them", sanitize.Cut(args.SubscriptionID, 64), toolListSubscriptions)
	}
	return encoded(struct {
		Cancelled bool `json:"cancelled"`
	}{true}, err)
}

// listSubscriptions lists the subscriptions of this session, oldest first.
func (s *server) listSubscriptions(context.Context, struct{}, call) (answer, error) {
	all, clusters := s.kubernetes.List()
	reply := struct {
		Subscriptions []kubernetes.SubscriptionStatus `json:"subscriptions"`
		Clusters      []string                        `json:"clusters"`
		Note          string                          `json:"note,omitempty"`
	}{Subscriptions: all, Clusters: clusters}
	switch err := s.bus.Connected(); {
	case err != nil:
		reply.Note = err.Error()
	case len(clusters) == 0:
		reply.Note = kubernetes.ErrNoCluster.Error()
	}
	return encoded(reply, nil)
}
