package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/github"
	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

const (
	pathGitHub = "/webhooks/github"
	pathGitLab = "/webhooks/gitlab"
)

// hooks are the secrets of webhooks; those that are empty are not set.
type hooks struct{ github, gitlabToken, gitlabSigning string }

var (
	githubBodies = dialect{media: []string{github.TypeJSON, github.TypeForm}}
	gitlabBodies = dialect{media: []string{typeJSON}}
)

// github takes a delivery of GitHub. With a secret, the signature is the proof;
// a signature that can't be looked at is none. Without both it is as other
// writes.
func (h *handler) github(r *http.Request) reply {
	signed := r.Header.Get(github.HeaderSignature) != "" || r.Header.Get(github.HeaderSHA1) != ""
	switch {
	case h.hooks.github != "":
	case signed:
		return unproven("the delivery is signed, but TOCSIN_GITHUB_WEBHOOK_SECRET is not set: set it to the webhook's secret")
	default:
		if err := h.authorized(r); err != nil {
			return unproven(err.Error()+"; or set TOCSIN_GITHUB_WEBHOOK_SECRET to the webhook's secret").with("WWW-Authenticate", "Bearer")
		}
	}
	return h.takeResult(r, githubBodies, func(media string, data []byte) (outcome, error) {
		if secret := h.hooks.github; secret != "" {
			if err := github.Verify(r.Header.Get(github.HeaderSignature), r.Header.Get(github.HeaderSHA1), data, []byte(secret)); err != nil {
				return outcome{}, refusal{unproven(err.Error())}
			}
		}
		payload, err := github.Payload(media, data)
		if err != nil {
			return outcome{}, err
		}
		result, ignored, err := github.Decode(r.Header.Get(github.HeaderEvent), payload)
		known := deliveries("github", r.Header.Get(github.HeaderDelivery))
		if h.hooks.github != "" { // the id is not signed: of one body there can be any number
			known = append(known, bus.BodySubject("github", data))
		}
		return outcome{result: result, ignored: ignored, deliveries: known}, err
	})
}

// gitlab takes a delivery of GitLab. With a signing token, the signature is the
// proof, else with a secret token that is; without both it is as other writes.
func (h *handler) gitlab(r *http.Request) reply {
	switch {
	case h.hooks.gitlabSigning != "":
		return h.takeResult(r, gitlabBodies, func(_ string, data []byte) (outcome, error) {
			signing, err := gitlab.NewSigning(h.hooks.gitlabSigning)
			if err == nil {
				err = signing.Verify(r.Header, data)
			}
			if err != nil {
				return outcome{}, refusal{unproven(err.Error())}
			}
			said, err := fromGitLab(r, data, gitlab.HeaderID) // deliveries are distinguished by what was signed
			said.deliveries = append(said.deliveries, bus.BodySubject("gitlab", data))
			return said, err
		})
	case h.hooks.gitlabToken != "":
		if !httpguard.SameSecret(r.Header.Get(gitlab.HeaderToken), h.hooks.gitlabToken) {
			return unproven(gitlab.ErrNoToken.Error())
		}
	case r.Header.Get(gitlab.HeaderToken) != "" || r.Header.Get(gitlab.HeaderSignature) != "":
		return unproven("the delivery has a token or a signature, but neither TOCSIN_GITLAB_SIGNING_TOKEN nor TOCSIN_GITLAB_SECRET_TOKEN is set: set the one that the webhook has")
	default:
		if err := h.authorized(r); err != nil {
			return unproven(err.Error()+"; or set TOCSIN_GITLAB_SIGNING_TOKEN or TOCSIN_GITLAB_SECRET_TOKEN to what the webhook has").with("WWW-Authenticate", "Bearer")
		}
	}
	return h.takeResult(r, gitlabBodies, func(_ string, data []byte) (outcome, error) {
		return fromGitLab(r, data, gitlab.HeaderKey)
	})
}

func fromGitLab(r *http.Request, data []byte, key string) (outcome, error) {
	result, ignored, err := gitlab.Decode(r.Header.Get(gitlab.HeaderEvent), data)
	return outcome{result: result, ignored: ignored, deliveries: deliveries("gitlab", r.Header.Get(key))}, err
}

// deliveries is the subject of a delivery; without an id, it can't be told from
// others.
func deliveries(sender, id string) []string {
	if id == "" {
		return nil
	}
	return []string{bus.DeliverySubject(sender, id)}
}
