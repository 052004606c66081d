package investigate

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// needle returns a secret that is found again: letters that stand in no other text. It is put
// together here, so that no scanner of the repository takes it for a real one.
func needle(n int) string { return "Zq" + strings.Repeat("x", n%3+1) + e2etest.Letters(n*7919) + "Wv" }

// secretTexts are texts with a secret each, as alerts, tools and models write them.
func secretTexts(from int) (texts []string, secrets []string) {
	add := func(format string, value string) {
		secrets, texts = append(secrets, value), append(texts, fmt.Sprintf(format, value))
	}
	add("password=%s", needle(from)+"Aa1")
	add("Authorization: Bearer %s", needle(from+1)+"0123456789abcdefghij")
	add("token ghp_%s", needle(from+2)+strings.Repeat("aB3", 9))
	add("postgres://admin:%s@db.internal:5432/shop", needle(from+3)+"pw")
	add(`{"api_key": "%s"}`, needle(from+4)+"0123456789abcdef")
	add("-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", needle(from+5)+strings.Repeat("MIIEvQ", 12))
	add("kind: Secret\napiVersion: v1\nmetadata: {name: shop}\nstringData:\n  plain: %s", needle(from+6))
	return texts, secrets
}

// leaked returns the secrets that a text has.
func leaked(text string, secrets []string) (found []string) {
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			found = append(found, secret)
		}
	}
	return found
}

// around shows where a text has a secret.
func around(text, secret string) string {
	const context = 300
	i := max(strings.Index(text, secret), 0)
	return text[max(0, i-context):min(len(text), i+len(secret)+context)]
}

// The keys of the two providers of TestMasking, and what its servers get.
var (
	keyOne, keyTwo = needle(100) + "keyone", needle(101) + "keytwo"
	serverSecret   = needle(102) + "server"
	bearer         = needle(103) + "bearer"
	headerSecret   = needle(104) + "header"
	// tenantValue and teamValue are in the environment, under names that say nothing of a secret.
	tenantValue, teamValue = needle(108) + "tenant", needle(109) + "team"
	// kubeconfig is in the environment too, and no secret.
	kubeconfig = "/home/visible-user/.kube/config"
	// serverText, agentText and runbookText are secrets in texts of the configuration.
	serverText, agentText, runbookText = needle(105) + "servertext", needle(106) + "agenttext", needle(107) + "runbooktext"
)

const masked = `
llm_providers:
  one: { type: openai, model: one, base_url: "$MODELS/v1", api_key_env: KEY_ONE }
  two: { type: anthropic, model: two, base_url: "$SECOND", api_key_env: KEY_TWO }
mcp_servers:
  cluster:
    instructions: "visible-instructions password=$SERVERTEXT"
    transport: { type: http, url: "$TOOLS", bearer_token: "{{.BEARER}}", custom_headers: { X-Tenant-Secret: "{{.HEADER_SECRET}}", X-Tenant: "{{.TENANT_VALUE}}" } }
    data_masking: { custom_patterns: [{ name: ticket, pattern: "TICKET-[A-Z]+" }] }
  local: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, local, "$DIR"], env: { SHOP_TOKEN: "{{.SERVER_SECRET}}", TEAM: "{{.TEAM_VALUE}}", KUBECONFIG: "{{.KUBE}}" } } }
agents:
  scout: { mcp_servers: [cluster, local], custom_instructions: "visible-agent password=$AGENTTEXT" }
agent_chains:
  both: { llm_provider: one, executive_summary_provider: two, stages: [{ name: look, agents: [{ name: scout }, { name: scout, llm_provider: two }] }] }
defaults: { llm_provider: one, runbook: "visible-runbook password={{.RUNBOOK_SECRET}}" }
`

// TestMasking puts secrets into an alert, into results of tools, into what models write, into texts
// of the configuration, and into the environment. They reach no request to a model, no answer of the API, nothing that the
// bus stores, and no log.
func TestMasking(t *testing.T) {
	t.Parallel()
	second := investigation.NewModels(t)
	config := strings.NewReplacer("$SECOND", second.URL, "$SERVERTEXT", serverText, "$AGENTTEXT", agentText).Replace(masked)
	sys := investigation.Start(t, config, "KEY_ONE="+keyOne, "KEY_TWO="+keyTwo, "BEARER="+bearer, "HEADER_SECRET="+headerSecret, "SERVER_SECRET="+serverSecret, "RUNBOOK_SECRET="+runbookText,
		"TENANT_VALUE="+tenantValue, "TEAM_VALUE="+teamValue, "KUBE="+kubeconfig)
	alert, secrets := secretTexts(0)
	results, more := secretTexts(20)
	arguments, others := secretTexts(40)
	ticket := "TICKET-" + strings.ToUpper(e2etest.Letters(4711)+e2etest.Letters(815))
	secrets = append(append(append(secrets, more...), others...), keyOne, keyTwo, serverSecret, bearer, headerSecret, ticket, serverText, agentText, runbookText, tenantValue, teamValue)
	// Each server also returns what it was given itself, and one what its own pattern masks.
	sys.Tools.Write(t, "leak-http", "visible-result\n"+strings.Join(append(slices.Clone(results), ticket, "bearer is "+bearer, headerSecret, tenantValue), "\n"))
	sys.Tools.Write(t, "leak-local", "visible-result\n"+strings.Join(append(slices.Clone(results), serverSecret, teamValue, kubeconfig), "\n"))

	script := func(q turn) modeltest.Answer {
		switch {
		case q.Agent == investigation.Executive || q.Agent == "SynthesisAgent":
			return q.Say("visible-summary " + strings.Join(arguments, "\n"))
		case len(q.Results) == 0:
			a := q.Call("cluster__leak", map[string]any{})
			a.Text, a.Thinking = q.Subject+" I saw "+arguments[1], "visible-thinking "+arguments[2]
			a.Calls = append(a.Calls,
				modeltest.Call{ID: q.Agent + "_other", Name: "local__leak", Arguments: "{}"},
				modeltest.Call{ID: q.Agent + "_echo", Name: "cluster__echo", Arguments: e2etest.JSON(t, map[string]any{"visible": "argument", "query": strings.Join(arguments, "\n")})})
			return a
		}
		return q.Say("visible-analysis " + arguments[0])
	}
	subject := sys.Models.Script(script)
	if other := second.Script(script); other != subject {
		t.Fatalf("the subjects are %s and %s, want the same on both servers", subject, other)
	}
	data := map[string]any{"title": "visible-alert " + subject, "log": strings.Join(alert, "\n"), "password": secrets[0], "nested": map[string]any{"text": alert[4]}}
	id := sys.Submit(t, "both", subject, map[string]any{"data": data})
	sys.Await(t, id, "completed")
	// A text that is JSON itself, and one that is none, are masked alike.
	plainText := sys.Submit(t, "both", subject, map[string]any{"data": subject + " visible-plain\n" + strings.Join(alert, "\n")})
	sys.Await(t, plainText, "completed")

	maskedRequests(t, sys, second, secrets)
	for _, id := range []string{id, plainText} {
		maskedAnswers(t, sys, id, secrets)
	}
	if err := sys.Bus.Stop(); err != nil {
		t.Errorf("stop: %v\n%s", err, sys.Bus.Log)
	}
	if found := leaked(sys.Output(), secrets); found != nil {
		t.Errorf("the log has %v:\n%s", found, sys.Output())
	}
	maskedFiles(t, sys.StateDir, secrets)
}

// maskedRequests checks what the two model servers and the MCP server got.
func maskedRequests(t *testing.T, sys *investigation.System, second *investigation.Models, secrets []string) {
	t.Helper()
	seen := ""
	for _, server := range []struct {
		name string
		*investigation.Models
		key string
	}{{"one", sys.Models, keyOne}, {"two", second, keyTwo}} {
		all := server.Requests()
		if len(all) == 0 {
			t.Errorf("provider %s got no request", server.name)
		}
		for _, q := range all {
			seen += q.Body
			if found := leaked(q.Body, secrets); found != nil {
				t.Errorf("a request to provider %s has %v: ...%s...", server.name, found, around(q.Body, found[0]))
			}
			headers, _ := json.Marshal(q.Header)
			keys := strings.Count(string(headers), server.key)
			if found := leaked(strings.ReplaceAll(string(headers), server.key, ""), secrets); found != nil || keys != 1 {
				t.Errorf("the header of a request to provider %s has its key %d times and %v besides, want the key once: %s", server.name, keys, found, headers)
			}
		}
	}
	for _, visible := range []string{"visible-alert", "visible-plain", "visible-result", "visible-analysis", "visible-instructions", "visible-agent", "visible-runbook", kubeconfig} {
		if !strings.Contains(seen, visible) {
			t.Errorf("no request has %q: the check of the requests shows nothing", visible)
		}
	}
	for _, h := range sys.Tools.Headers() {
		header, _ := json.Marshal(h)
		if !strings.Contains(string(header), bearer) || !strings.Contains(string(header), headerSecret) || leaked(string(header), []string{keyOne, keyTwo, serverSecret}) != nil {
			t.Errorf("the MCP server got the header %s, want its own token and header, and nothing of others", header)
			break
		}
	}
}

// maskedAnswers checks everything that the API shows of a session.
func maskedAnswers(t *testing.T, sys *investigation.System, id string, secrets []string) {
	t.Helper()
	paths := []string{
		"/sessions", "/sessions/active", "/sessions/filter-options", "/alert-types", "/runbooks", "/system/warnings", "/system/mcp-servers",
		"/system/default-tools", "/system/config", "/sessions/" + id, "/sessions/" + id + "/summary", "/sessions/" + id + "/timeline", "/sessions/" + id + "/trace",
	}
	trace := sys.Trace(t, id)
	for _, it := range trace.Session {
		paths = append(paths, "/sessions/"+id+"/trace/llm/"+it.ID)
	}
	for _, st := range trace.Stages {
		for _, e := range st.Executions {
			for _, it := range e.LLM {
				paths = append(paths, "/sessions/"+id+"/trace/llm/"+it.ID)
			}
			for _, it := range e.MCP {
				paths = append(paths, "/sessions/"+id+"/trace/mcp/"+it.ID)
			}
		}
	}
	seen := ""
	for _, path := range paths {
		a := sys.Send(t, http.MethodGet, path, "")
		if a.Status != http.StatusOK {
			t.Errorf("GET %s answers %d %s, want 200", path, a.Status, a.Body)
		}
		seen += a.Body
		if found := leaked(a.Body, secrets); found != nil {
			t.Errorf("GET %s shows %v: ...%s...", path, found, around(a.Body, found[0]))
		}
	}
	for _, visible := range []string{"visible-result", "visible-analysis", "visible-summary", "visible-thinking"} {
		if !strings.Contains(seen, visible) {
			t.Errorf("no answer of the API has %q: the check of the answers shows nothing", visible)
		}
	}
	if a := e2etest.Get(t, sys.Bus.InvestigatorURL+"/metrics"); a.Status != http.StatusOK || leaked(a.Body, secrets) != nil {
		t.Errorf("/metrics answers %d with %v, want 200 without secrets", a.Status, leaked(a.Body, secrets))
	}
}

// maskedFiles checks all files of a bus that has stopped: what its streams store stands in them as
// it is.
func maskedFiles(t *testing.T, dir string, secrets []string) {
	t.Helper()
	visible := map[string]bool{"visible-alert": false, "visible-plain": false, "visible-result": false, "visible-analysis": false, "visible-instructions": false, "visible-agent": false, "visible-runbook": false}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if found := leaked(string(data), secrets); found != nil {
			t.Errorf("the file %s has %v: ...%s...", path, found, around(string(data), found[0]))
		}
		for text := range visible {
			visible[text] = visible[text] || strings.Contains(string(data), text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, found := range visible {
		if !found {
			t.Errorf("no file of the bus has %q: the check of the files shows nothing", text)
		}
	}
}

// sdkVariables are the variables that the SDKs of the providers read by default, and others that
// programs pass on.
var sdkVariables = []string{
	"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET", "OPENAI_CUSTOM_HEADERS",
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE", "ANTHROPIC_MODEL",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
	"GITHUB_TOKEN", "SLACK_BOT_TOKEN", "KUBECONFIG", "HTTP_AUTHORIZATION", "TOCSIN_PROXY_SECRET",
}

const surrounded = `
llm_providers:
  chat: { type: openai, model: chat-model, base_url: "$MODELS/v1", api_key_env: "" }
  responses: { type: openai, model: responses-model, base_url: "$MODELS/v1", api: responses, api_key_env: "" }
  claude: { type: anthropic, model: claude-model, base_url: "$MODELS", api_key_env: "" }
mcp_servers:
  local: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, local, "$DIR"], env: { OWN_VALUE: given } } }
agents:
  good: { mcp_servers: [local] }
agent_chains:
  chat: { llm_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  responses: { llm_provider: responses, stages: [{ name: look, agents: [{ name: good }] }] }
  claude: { llm_provider: claude, stages: [{ name: look, agents: [{ name: good }] }] }
defaults: { llm_provider: chat }
`

// TestEnvironment sets every variable that the SDKs know. None of them changes a request or reaches
// a server's process.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	var env []string
	for i, name := range sdkVariables {
		value := fmt.Sprintf("needle-%d-%s", i, needle(200+i))
		switch {
		case strings.HasSuffix(name, "BASE_URL"):
			value = "http://127.0.0.1:1/" + value // nothing answers there
		case strings.HasSuffix(name, "HEADERS"):
			value = "X-Needle: " + value
		}
		env = append(env, name+"="+value)
	}
	sys := investigation.Start(t, surrounded, env...)
	subject := sys.Models.Script(func(q turn) modeltest.Answer {
		if q.Agent == "good" && len(q.Results) == 0 {
			return q.Call("local__environment", map[string]any{})
		}
		return q.Say("done")
	})
	for _, chain := range []string{"chat", "responses", "claude"} {
		sys.Await(t, sys.Submit(t, chain, subject), "completed")
	}
	apis := map[string]int{}
	for _, q := range sys.Models.Requests() {
		apis[q.API]++
		header, _ := json.Marshal(q.Header)
		for where, text := range map[string]string{"path": q.Path, "header": string(header), "body": q.Body} {
			if strings.Contains(strings.ToLower(text), "needle") {
				t.Errorf("the %s of a request of %s has a variable of the environment: %s", where, q.API, text)
			}
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "Openai-Organization", "Openai-Project"} {
			if got := q.Header.Get(name); strings.TrimSpace(strings.TrimPrefix(got, "Bearer")) != "" {
				t.Errorf("a request of %s has the header %s: %s, want none: no key is configured", q.API, name, got)
			}
		}
	}
	for _, api := range []string{"chat", "responses", "messages"} {
		if apis[api] != 3 {
			t.Errorf("requests by API: %v, want 3 of %s", apis, api)
		}
	}
	data, err := os.ReadFile(filepath.Join(sys.Tools.Dir, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); strings.Contains(text, "needle") || !strings.Contains(text, "OWN_VALUE=given") || !strings.Contains(text, "PATH=") {
		t.Errorf("the server's process has the environment\n%s\nwant its own variable and PATH, and none of the needles", text)
	}
	for _, name := range append(sdkVariables, "TOCSIN_STATE_DIR", "XDG_CONFIG_HOME") {
		if strings.Contains(string(data), name+"=") {
			t.Errorf("the server's process has %s, want only what section 7 lists", name)
		}
	}
}
