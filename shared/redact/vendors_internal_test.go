package redact

import (
	"regexp"
	"strings"
	"testing"
)

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
	rules := gitleaksRules()
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
