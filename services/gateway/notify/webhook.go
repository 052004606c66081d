package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// webhook posts notices as JSON. After a timeout, a notice that did arrive is sent again
// with the same timestamp.
type webhook struct {
	poster
	url, token string
}

func newWebhook(url, token string) *webhook {
	return &webhook{poster: newPoster(), url: url, token: token}
}

func (w *webhook) deliver(ctx context.Context, d delivery) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return w.retry(ctx, func(ctx context.Context) error { return w.post(ctx, body) })
}

func (w *webhook) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return requestError(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "tocsin")
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	response, err := w.client.Do(r)
	if err != nil {
		return requestError(err)
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		return statusError(response.StatusCode)
	}
	return nil
}
