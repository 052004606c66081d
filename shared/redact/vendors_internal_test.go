package redact

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
)

var update = flag.Bool("update", false, "rewrite gitleaks.json from the module gitleaks")

// moduleRules returns the expressions of the module gitleaks by the names of their rules.
func moduleRules(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Rules []struct{ ID, Regex string }
	}
	if err := toml.Unmarshal([]byte(config.DefaultConfig), &file); err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, r := range file.Rules {
		rules[r.ID] = r.Regex
	}
	return rules
}

// TestGitleaksFile checks that gitleaks.json has the expressions that the module has.
func TestGitleaksFile(t *testing.T) {
	module, want := moduleRules(t), map[string]string{}
	for _, v := range vendorTokens() {
		if v.rule != "" {
			want[v.rule] = module[v.rule]
		}
	}
	if *update {
		data, err := json.MarshalIndent(want, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("gitleaks.json", append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, gitleaksRules()); diff != "" {
		t.Errorf("gitleaks.json differs from the module; run go test ./shared/redact -run TestGitleaksFile -update (-want +got):\n%s", diff)
	}
}

// leftOut are the rules of gitleaks that this package does without.
var leftOut = map[string]string{
	"generic-api-key": "goes by entropy", "sourcegraph-access-token": "matches any commit", "pkcs12-file": "has no expression",
	"curl-auth-header": "commands and headers", "curl-auth-user": "commands and headers", "kubernetes-secret-yaml": "the data of a Secret",
	"sidekiq-sensitive-url": "passwords in URLs", "nuget-config-password": "a name beside a value", "freemius-secret-key": "a sensitive name",
	"gitlab-session-cookie": "a cookie", "private-key": "private keys", "vault-service-token": "begins as words do, or is known by a shape",
	"maxmind-license-key": "only its end is known", "facebook-access-token": "only its middle is known", "flutterwave-public-key": "no secret",
}

// ownShape reports whether a rule is of tokens that shapes or vendorTokens know
// by a start of their own.
func ownShape(id string) bool {
	for _, start := range []string{
		"age-", "anthropic-", "aws-access-token", "azure-ad-", "databricks-", "digitalocean-", "doppler-", "dynatrace-", "flyio-", "gcp-api-key", "github-", "gitlab-", "grafana-service-", "airtable-personnal-",
		"artifactory-api-key", "atlassian-", "hashicorp-tf-", "heroku-api-key-v2", "huggingface-access-", "jwt", "linear-api-", "microsoft-teams-", "notion-", "npm-", "openai-", "perplexity-", "planetscale-", "postman-", "pulumi-", "pypi-", "rubygems-",
		"sendgrid-", "sentry-org-", "sentry-user-", "shopify-", "slack-", "square-", "stripe-", "twilio-", "vault-",
	} {
		if strings.HasPrefix(id, start) {
			return true
		}
	}
	return false
}

// TestRulesOfGitleaks: every rule of the collection is used, known here by
// another way, or left out for a reason. A new version may bring rules that
// need a decision.
func TestRulesOfGitleaks(t *testing.T) {
	t.Parallel()
	rules := moduleRules(t)
	used := map[string]bool{}
	for _, v := range vendorTokens() {
		if v.rule == "" {
			continue
		}
		used[v.rule] = true
		expression, ok := rules[v.rule]
		if !ok {
			t.Errorf("gitleaks has no rule %s", v.rule)
			continue
		}
		re := compiled(expression)
		for _, commit := range []string{strings.Repeat("1f0b2d84", 5), strings.Repeat("4b1d2d84", 5), strings.Repeat("1f0b2d84", 8)} {
			if re.MatchString(commit) {
				t.Errorf("the rule %s matches the commit or digest %s", v.rule, commit)
			}
		}
	}
	// The others want the name of a vendor before any word. A sensitive name
	// beside it is known without them; without one it is as likely an id.
	named := regexp.MustCompile(`\(\?i\)\[\\w\.-\]\{0,50\}\?|\(\?i:\[\\w\.-\]\{0,50\}`)
	for id, expression := range rules {
		if !used[id] && leftOut[id] == "" && !ownShape(id) && !named.MatchString(expression) {
			t.Errorf("the rule %s is neither used nor left out: %s", id, expression)
		}
	}
}
