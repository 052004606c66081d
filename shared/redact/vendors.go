package redact

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// gitleaksFile maps the names of the rules of gitleaks (MIT licence, (c) Zachary Rice)
// that [vendorTokens] uses to their expressions. The package gitleaks/config itself
// links a configuration library, which every process that masks would start with.
// TestGitleaksFile compares the file with the module.
//
//go:embed gitleaks.json
var gitleaksFile []byte

// vendor is a token that begins at a word, and begins as no word does.
type vendor struct {
	name, start string
	// What follows the start: at least least bytes of a class. Where a rule is
	// given, only then it is asked: an expression costs much.
	class class
	least int
	// match is for those with more to it than that.
	match func(cursor) hit
	// rule is the rule of gitleaks that knows the token, where that knows it better
	// than a class does.
	rule string
}

// vendorTokens are the tokens known by their start. Those with a rule are
// gitleaks': its expressions are compiled once a text has their start in it.
func vendorTokens() []vendor {
	const alnum = classLetter | classDigit
	return []vendor{
		{name: "linear", start: "lin_api_", class: classToken, least: 20},
		{name: "linear", start: "lin_oauth_", class: classToken, least: 20},
		{name: "notion", start: "ntn_", class: alnum, least: 30},
		{name: "grafana", start: "glsa_", class: classToken, least: 24},
		{name: "databricks", start: "dapi", class: classHex, least: 32},
		{name: "planetscale", start: "pscale_tkn_", class: classBase64, least: 20},
		{name: "planetscale", start: "pscale_oauth_", class: classBase64, least: 20},
		{name: "planetscale", start: "pscale_pw_", class: classBase64, least: 20},
		{name: "fly", start: "FlyV1 ", class: classBase64, least: 20},
		{name: "fly", start: "fm1a_", class: classBase64, least: 40},
		{name: "fly", start: "fm1r_", class: classBase64, least: 40},
		{name: "fly", start: "fm2_", class: classBase64, least: 40},
		{name: "fly", start: "fo1_", class: classToken, least: 30},
		{name: "supabase", start: "sbp_", class: alnum, least: 30},
		{name: "supabase", start: "sb_secret_", class: classToken, least: 20},
		{name: "netlify", start: "nfp_", class: alnum, least: 30},
		{name: "netlify", start: "nfc_", class: alnum, least: 30},
		{name: "xai", start: "xai-", class: alnum, least: 40},
		{name: "replicate", start: "r8_", class: alnum, least: 30},
		{name: "perplexity", start: "pplx-", class: alnum, least: 30},
		{name: "sentry", start: "sntrys_", class: classBase64, least: 32},
		{name: "sentry", start: "sntryu_", class: classHex, least: 40},
		{name: "rubygems", start: "rubygems_", class: classHex, least: 40},
		{name: "heroku", start: "HRKU-", class: classToken, least: 20},
		{name: "atlassian", start: "ATATT3", class: classBase64, least: 24},
		{name: "atlassian", start: "ATCTT3", class: classBase64, least: 24},
		{name: "bitbucket", start: "ATBB", class: alnum, least: 24},
		{name: "postman", start: "PMAK-", class: classToken, least: 24},
		{name: "newrelic", start: "NRAK-", class: alnum, least: 20},
		{name: "artifactory", start: "AKCp", class: alnum, least: 40},
		{name: "dynatrace", start: "dt0c01.", class: classBase64, least: 24},
		{name: "dynatrace", start: "dt0s01.", class: classBase64, least: 24},
		{name: "pulumi", start: "pul-", class: classHex, least: 40},
		{name: "doppler", start: "dp.pt.", class: alnum, least: 30},
		{name: "doppler", start: "dp.st.", class: classBase64, least: 30},
		{name: "doppler", start: "dp.ct.", class: alnum, least: 30},
		{name: "doppler", start: "dp.sa.", class: alnum, least: 30},
		{name: "tailscale", start: "tskey-", match: withDigit(token("tskey-", classToken, 16))},
		{name: "circleci", start: "CCIPAT_", class: classToken, least: 20},
		{name: "circleci", start: "CCIPRJ_", class: classToken, least: 20},
		{name: "buildkite", start: "bkua_", class: alnum, least: 30},
		{name: "mailgun", start: "key-", match: mailgun},
		{name: "airtable", start: "pat", match: airtable},
		{name: "aws", start: "QUtJQ", class: classBase64, least: 24},
		{name: "aws", start: "QVNJQ", class: classBase64, least: 24},
		{name: "private_key", start: "LS0tLS1CRUdJTi", match: encodedKey},

		{name: "onepassword", start: "A3-", class: classUpperDigit, least: 6, rule: "1password-secret-key"},
		{name: "onepassword", start: "ops_eyJ", class: classBase64, least: 250, rule: "1password-service-account-token"},
		{name: "adobe", start: "p8e-", class: alnum, least: 32, rule: "adobe-client-secret"},
		{name: "alibaba", start: "LTAI", class: alnum, least: 20, rule: "alibaba-access-key-id"},
		{name: "artifactory", start: "cmVmd", class: alnum, least: 59, rule: "artifactory-reference-token"},
		{name: "authress", start: "sc_", class: alnum, least: 5, rule: "authress-service-client-access-key"},
		{name: "authress", start: "ext_", class: alnum, least: 5, rule: "authress-service-client-access-key"},
		{name: "authress", start: "scauth_", class: alnum, least: 5, rule: "authress-service-client-access-key"},
		{name: "authress", start: "authress_", class: alnum, least: 5, rule: "authress-service-client-access-key"},
		{name: "bedrock", start: "ABSK", class: classBase64, least: 109, rule: "aws-amazon-bedrock-api-key-long-lived"},
		{name: "bedrock", start: "bedrock-api-key-", rule: "aws-amazon-bedrock-api-key-short-lived"},
		{name: "clickhouse", start: "4b1d", class: alnum, least: 38, rule: "clickhouse-cloud-api-secret-key"},
		{name: "clojars", start: "CLOJARS_", class: alnum, least: 60, rule: "clojars-api-token"},
		{name: "cloudflare", start: "v1.0-", class: classHex, least: 24, rule: "cloudflare-origin-ca-key"},
		{name: "duffel", start: "duffel_", rule: "duffel-api-token"},
		{name: "easypost", start: "EZAK", class: alnum, least: 54, rule: "easypost-api-token"},
		{name: "easypost", start: "EZTK", class: alnum, least: 54, rule: "easypost-test-api-token"},
		{name: "facebook", start: "EAAM", class: alnum, least: 100, rule: "facebook-page-access-token"},
		{name: "facebook", start: "EAAC", class: alnum, least: 100, rule: "facebook-page-access-token"},
		{name: "flutterwave", start: "FLWSECK_TEST-", rule: "flutterwave-secret-key"},
		{name: "flutterwave", start: "FLWSECK_TEST-", rule: "flutterwave-encryption-key"},
		{name: "frameio", start: "fio-u-", rule: "frameio-api-token"},
		{name: "grafana", start: "glc_", class: classBase64, least: 32, rule: "grafana-cloud-api-token"},
		{name: "grafana", start: "eyJrIjoi", class: alnum, least: 70, rule: "grafana-api-key"},
		{name: "harness", start: "pat.", class: classToken, least: 22, rule: "harness-api-key"},
		{name: "harness", start: "sat.", class: classToken, least: 22, rule: "harness-api-key"},
		{name: "huggingface", start: "api_org_", class: classLetter, least: 34, rule: "huggingface-organization-api-token"},
		{name: "infracost", start: "ico-", class: alnum, least: 32, rule: "infracost-api-token"},
		{name: "intra42", start: "s-s4t2", class: classToken, least: 67, rule: "intra42-client-secret"},
		{name: "jwt", start: "ZXlK", rule: "jwt-base64"},
		{name: "octopus", start: "API-", class: classUpperDigit, least: 26, rule: "octopus-deploy-api-key"},
		{name: "openshift", start: "sha256~", class: classToken, least: 43, rule: "openshift-user-token"},
		{name: "prefect", start: "pnu_", class: alnum, least: 36, rule: "prefect-api-token"},
		{name: "readme", start: "rdme_", class: alnum, least: 70, rule: "readme-api-token"},
		{name: "scalingo", start: "tk-us-", class: classToken, least: 48, rule: "scalingo-api-token"},
		{name: "brevo", start: "xkeysib-", class: classHex, least: 64, rule: "sendinblue-api-token"},
		{name: "settlemint", start: "sm_aat_", rule: "settlemint-application-access-token"},
		{name: "settlemint", start: "sm_pat_", rule: "settlemint-personal-access-token"},
		{name: "settlemint", start: "sm_sat_", rule: "settlemint-service-access-token"},
		{name: "shippo", start: "shippo_", rule: "shippo-api-token"},
		{name: "square", start: "EAAA", class: classToken, least: 22, rule: "square-access-token"},
		{name: "vault", start: "hvb.", class: classToken, least: 138, rule: "vault-batch-token"},
	}
}

// vendors finds the tokens of vendors by their first three bytes.
type vendors struct {
	// leads has a bit for the five low bits of each of three bytes: what a start
	// begins with, and little else.
	leads   [1 << 15 / 64]uint64
	byStart map[string][]vendor
	// pairs has a bit for the first two bytes of each start.
	pairs [1 << 16 / 64]uint64
}

// leadBytes is how many bytes of a start are looked at first.
const leadBytes = 3

func newVendors() *vendors {
	v := &vendors{byStart: map[string][]vendor{}}
	rules := sync.OnceValue(gitleaksRules)
	for _, one := range vendorTokens() {
		switch {
		case one.rule != "":
			one.match = expression(one, sync.OnceValue(func() *regexp.Regexp { return compiled(rules()[one.rule]) }))
		case one.match == nil:
			one.match = token(one.start, one.class, one.least)
		}
		v.leads[lead(one.start, 0)>>6] |= 1 << (lead(one.start, 0) & 63)
		at := uint(one.start[0])<<8 | uint(one.start[1])
		v.pairs[at>>6] |= 1 << (at & 63)
		v.byStart[one.start[:leadBytes]] = append(v.byStart[one.start[:leadBytes]], one)
	}
	return v
}

// lead returns the low bits of three bytes at i, which there must be.
func lead(s string, i int) uint {
	return uint(s[i]&31)<<10 | uint(s[i+1]&31)<<5 | uint(s[i+2]&31)
}

// mayBegin reports whether a token may begin at i.
func (v *vendors) mayBegin(s string, i int) bool {
	at := lead(s, i)
	return v.leads[at>>6]>>(at&63)&1 != 0 && wordStart(s, i)
}

// vendorToken matches the token of a vendor.
func vendorToken(c cursor) hit {
	if len(c.text)-c.at < leadBytes {
		return hit{}
	}
	for _, one := range c.engine.vendors.byStart[c.text[c.at:c.at+leadBytes]] {
		if strings.HasPrefix(c.text[c.at:], one.start) {
			c.mask = maskOf(one.name)
			if h := one.match(c); h.to > 0 {
				return h
			}
		}
	}
	return hit{}
}

// gitleaksRules returns the expressions of gitleaks by the names of their rules.
func gitleaksRules() map[string]string {
	var rules map[string]string
	if err := json.Unmarshal(gitleaksFile, &rules); err != nil {
		panic("redact: read gitleaks.json: " + err.Error())
	}
	return rules
}

// terminator ends most of gitleaks' expressions: it wants a quote, a space or an
// end behind a token. Logs have brackets and commas there too.
const terminator = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"

// compiled compiles an expression of gitleaks so that it matches where a text
// begins, and however the text goes on.
func compiled(expression string) *regexp.Regexp {
	return regexp.MustCompile("^(?:" + strings.TrimSuffix(expression, terminator) + ")")
}

// expression matches what a regular expression does, which is that of a vendor.
func expression(v vendor, re func() *regexp.Regexp) func(cursor) hit {
	const longest = 1 << 10
	return func(c cursor) hit {
		if !v.mayFollow(c.text, c.at+len(v.start)) {
			return hit{}
		}
		at := re().FindStringIndex(c.text[c.at:min(len(c.text), c.at+longest)])
		if at == nil {
			return hit{}
		}
		return hit{from: c.at, to: runEnd(c.text, c.at+at[1], classToken), text: c.mask}
	}
}

// mayFollow reports whether what must follow the start stands at i. Characters
// beyond ASCII are left to the expression.
func (v vendor) mayFollow(s string, i int) bool {
	if len(s)-i < v.least {
		return false
	}
	for _, b := range []byte(s[i : i+v.least]) {
		if !is(b, v.class) && b < utf8.RuneSelf {
			return false
		}
	}
	return true
}

// mailgun matches key- and exactly 32 hexadecimal digits.
func mailgun(c cursor) hit {
	h := token("key-", classHex, 32)(c)
	if before := byteAt(c.text, c.at-1); h.to != c.at+len("key-")+32 || isAlnum(byteAt(c.text, h.to)) || before == '-' || before == '_' {
		return hit{}
	}
	return h
}

// airtable matches pat, an id of 14 letters and digits, a dot and a key.
func airtable(c cursor) hit {
	const id, key = 14, 64
	dot := c.at + len("pat") + id
	if byteAt(c.text, dot) != '.' || runEnd(c.text, c.at, classLetter|classDigit) != dot {
		return hit{}
	}
	to := runEnd(c.text, dot+1, classHex)
	if to-dot-1 < key {
		return hit{}
	}
	return hit{from: c.at, to: to, text: c.mask}
}
