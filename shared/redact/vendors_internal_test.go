package redact

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/zricethezav/gitleaks/v8/config"
	"pgregory.net/rapid"
)

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

// known maps the rules of gitleaks to vendors in vendorTokens.
var known = map[string]string{
	"1password-secret-key": "onepassword", "1password-service-account-token": "onepassword", "adobe-client-secret": "adobe",
	"alibaba-access-key-id": "alibaba", "artifactory-reference-token": "artifactory", "authress-service-client-access-key": "authress",
	"aws-amazon-bedrock-api-key-long-lived": "bedrock", "aws-amazon-bedrock-api-key-short-lived": "bedrock", "clickhouse-cloud-api-secret-key": "clickhouse",
	"clojars-api-token": "clojars", "cloudflare-origin-ca-key": "cloudflare", "duffel-api-token": "duffel", "easypost-api-token": "easypost",
	"easypost-test-api-token": "easypost", "facebook-page-access-token": "facebook", "flutterwave-encryption-key": "flutterwave",
	"flutterwave-secret-key": "flutterwave", "frameio-api-token": "frameio", "grafana-api-key": "grafana", "grafana-cloud-api-token": "grafana",
	"harness-api-key": "harness", "huggingface-organization-api-token": "huggingface", "infracost-api-token": "infracost",
	"intra42-client-secret": "intra42", "jwt-base64": "jwt", "octopus-deploy-api-key": "octopus", "openshift-user-token": "openshift",
	"prefect-api-token": "prefect", "readme-api-token": "readme", "scalingo-api-token": "scalingo", "sendinblue-api-token": "brevo",
	"settlemint-application-access-token": "settlemint", "settlemint-personal-access-token": "settlemint", "settlemint-service-access-token": "settlemint",
	"shippo-api-token": "shippo", "square-access-token": "square", "vault-batch-token": "vault",
}

// TestRulesOfGitleaks checks that every rule of the collection is known here or left out
// for a reason. A new version may bring rules that need a decision.
func TestRulesOfGitleaks(t *testing.T) {
	t.Parallel()
	rules := moduleRules(t)
	vendors := map[string]bool{}
	for _, v := range vendorTokens() {
		vendors[v.name] = true
	}
	for id, vendor := range known {
		if rules[id] == "" {
			t.Errorf("gitleaks has no rule %s, want it: it is in known", id)
		}
		if !vendors[vendor] {
			t.Errorf("vendorTokens has no %s, want it for the rule %s", vendor, id)
		}
	}
	// The others want the name of a vendor before any word. A sensitive name beside it
	// is known without them; without one it is as likely an id.
	named := regexp.MustCompile(`\(\?i\)\[\\w\.-\]\{0,50\}\?|\(\?i:\[\\w\.-\]\{0,50\}`)
	for id, expression := range rules {
		if known[id] == "" && leftOut[id] == "" && !ownShape(id) && !named.MatchString(expression) {
			t.Errorf("the rule %s is neither in known nor in leftOut, want it in one: %s", id, expression)
		}
	}
}

// TestTokensOfGitleaks checks that a text which a rule of gitleaks matches is masked.
func TestTokensOfGitleaks(t *testing.T) {
	t.Parallel()
	engine := New()
	for id, expression := range moduleRules(t) {
		if known[id] == "" || id == "jwt-base64" { // its expression matches texts that are no token
			continue
		}
		// The end of an expression wants a quote or a space, which the log line gives.
		// Without (?i), which would have other cases of the start and letters beyond ASCII.
		expression = strings.NewReplacer("(?i)", "", "(?i:", "(?:", `\b`, "").Replace(strings.TrimSuffix(strings.TrimSuffix(expression, terminator), `(?:[^\w-]|\z)`))
		texts := rapid.StringMatching(expression)
		t.Run(id, rapid.MakeCheck(func(t *rapid.T) {
			token := texts.Draw(t, "token")
			got := engine.String("use " + token + " now")
			if !strings.HasPrefix(got, "use [REDACTED:") || !strings.HasSuffix(got, "] now") {
				t.Fatalf("got %q, want all of %q masked", got, token)
			}
		}))
	}
}

// terminator ends most expressions of gitleaks: a quote, a space or an end behind a token.
const terminator = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"

// TestDigestsStay checks that commits and digests, which begin as some tokens do, are kept.
func TestDigestsStay(t *testing.T) {
	t.Parallel()
	for _, digest := range []string{strings.Repeat("1f0b2d84", 5), strings.Repeat("4b1d2d84", 5), strings.Repeat("1f0b2d84", 8), strings.Repeat("4b1d2d84", 8)} {
		if got := New().String("at " + digest); got != "at "+digest {
			t.Errorf("got %q, want %q kept", got, digest)
		}
	}
}
