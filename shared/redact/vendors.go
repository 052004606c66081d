package redact

import (
	"encoding/base64"
	"strings"
)

// vendor is a token with a start that no word has.
type vendor struct {
	name, start string
	// A run of at least least bytes of class follows the start.
	class class
	least int
	// parts follow the start instead, where the token has several parts.
	parts []part
	// match recognizes tokens that need more than that.
	match func(cursor) hit
}

// part is a literal, or a run of least to most bytes of a class; most 0 is no limit.
type part struct {
	literal     string
	class       class
	least, most int
}

func literal(text string) part          { return part{literal: text} }
func exactly(n int, c class) part       { return part{class: c, least: n, most: n} }
func between(n, most int, c class) part { return part{class: c, least: n, most: most} }

// vendorTokens are the tokens known by their start, from the documentation of their
// vendors. TestRulesOfGitleaks compares them with the rules of gitleaks.
func vendorTokens() []vendor {
	const alnum = classLetter | classDigit
	dash, five := literal("-"), exactly(5, classUpperDigit)
	authress := []part{
		between(5, 30, alnum), literal("."), between(4, 6, alnum), literal(".acc"),
		exactly(1, classToken), between(10, 32, classToken), literal("."), {class: classBase64, least: 30},
	}
	harness := []part{exactly(22, classToken), literal("."), exactly(24, alnum), literal("."), {class: alnum, least: 20}}
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

		{name: "onepassword", start: "A3-", parts: []part{exactly(6, classUpperDigit), dash, exactly(11, classUpperDigit), dash, five, dash, five, dash, five}},
		{name: "onepassword", start: "A3-", parts: []part{exactly(6, classUpperDigit), dash, exactly(6, classUpperDigit), dash, five, dash, five, dash, five, dash, five}},
		{name: "onepassword", start: "ops_eyJ", class: classBase64, least: 250},
		{name: "adobe", start: "p8e-", class: alnum, least: 32},
		{name: "alibaba", start: "LTAI", class: alnum, least: 20},
		{name: "artifactory", start: "cmVmd", parts: []part{exactly(59, alnum)}},
		{name: "authress", start: "sc_", parts: authress},
		{name: "authress", start: "ext_", parts: authress},
		{name: "authress", start: "scauth_", parts: authress},
		{name: "authress", start: "authress_", parts: authress},
		{name: "bedrock", start: "ABSK", class: classBase64, least: 109},
		{name: "bedrock", start: "bedrock-api-key-", class: classBase64, least: 28},
		{name: "clickhouse", start: "4b1d", parts: []part{exactly(38, alnum)}},
		{name: "clojars", start: "CLOJARS_", class: alnum, least: 60},
		{name: "cloudflare", start: "v1.0-", parts: []part{exactly(24, classHex), dash, {class: classHex, least: 146}}},
		{name: "duffel", start: "duffel_test_", class: classBase64, least: 43},
		{name: "duffel", start: "duffel_live_", class: classBase64, least: 43},
		{name: "easypost", start: "EZAK", parts: []part{exactly(54, alnum)}},
		{name: "easypost", start: "EZTK", parts: []part{exactly(54, alnum)}},
		{name: "facebook", start: "EAAM", class: alnum, least: 100},
		{name: "facebook", start: "EAAC", class: alnum, least: 100},
		{name: "flutterwave", start: "FLWSECK_TEST-", class: classToken, least: 12},
		{name: "frameio", start: "fio-u-", class: classBase64, least: 64},
		{name: "grafana", start: "glc_", class: classBase64, least: 32},
		{name: "grafana", start: "eyJrIjoi", class: classBase64, least: 70},
		{name: "harness", start: "pat.", parts: harness},
		{name: "harness", start: "sat.", parts: harness},
		{name: "huggingface", start: "api_org_", class: classLetter, least: 34},
		{name: "infracost", start: "ico-", class: alnum, least: 32},
		{name: "intra42", start: "s-s4t2ud-", class: classHex, least: 64},
		{name: "intra42", start: "s-s4t2af-", class: classHex, least: 64},
		{name: "jwt", start: "ZXlK", match: encodedJWT},
		{name: "octopus", start: "API-", class: classUpperDigit, least: 26},
		{name: "openshift", start: "sha256~", class: classToken, least: 43},
		{name: "prefect", start: "pnu_", class: alnum, least: 36},
		{name: "readme", start: "rdme_", class: alnum, least: 70},
		{name: "scalingo", start: "tk-us-", class: classToken, least: 48},
		{name: "brevo", start: "xkeysib-", parts: []part{exactly(64, classHex), dash, {class: alnum, least: 16}}},
		{name: "settlemint", start: "sm_aat_", class: alnum, least: 16},
		{name: "settlemint", start: "sm_pat_", class: alnum, least: 16},
		{name: "settlemint", start: "sm_sat_", class: alnum, least: 16},
		{name: "shippo", start: "shippo_live_", class: classHex, least: 40},
		{name: "shippo", start: "shippo_test_", class: classHex, least: 40},
		{name: "square", start: "EAAA", class: classToken, least: 22},
		{name: "vault", start: "hvb.", class: classToken, least: 138},
	}
}

// vendors finds the tokens of vendors by their first three bytes.
type vendors struct {
	// leads has a bit for the five low bits of each of the first three bytes of a start.
	leads   [1 << 15 / 64]uint64
	byStart map[string][]vendor
	// pairs has a bit for the first two bytes of each start.
	pairs [1 << 16 / 64]uint64
}

// leadBytes is how many bytes of a start are examined first.
const leadBytes = 3

func newVendors() *vendors {
	v := &vendors{byStart: map[string][]vendor{}}
	for _, one := range vendorTokens() {
		switch {
		case one.parts != nil:
			one.match = sequence(one.start, one.parts)
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

// lead returns the low bits of the three bytes at i, which must exist.
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
	if len(c.text)-c.pos < leadBytes {
		return hit{}
	}
	for _, one := range c.engine.vendors.byStart[c.text[c.pos:c.pos+leadBytes]] {
		if strings.HasPrefix(c.text[c.pos:], one.start) {
			c.mask = maskOf(one.name)
			if h := one.match(c); h.to > 0 {
				return h
			}
		}
	}
	return hit{}
}

// sequence matches a start and the parts that follow it. A run that is longer than its part allows
// is no match.
func sequence(start string, parts []part) func(cursor) hit {
	return func(c cursor) hit {
		i := c.pos + len(start)
		for _, p := range parts {
			if p.literal != "" {
				if !strings.HasPrefix(c.text[i:], p.literal) {
					return hit{}
				}
				i += len(p.literal)
				continue
			}
			end := runEnd(c.text, i, p.class)
			if p.most == 1 { // one byte of a class that the next part continues
				end = min(end, i+1)
			}
			if n := end - i; n < p.least || p.most > 0 && n > p.most {
				return hit{}
			}
			i = end
		}
		return hit{from: c.pos, to: i, text: c.mask}
	}
}

// encodedJWT matches a JSON Web Token that was encoded in base64 once more.
func encodedJWT(c cursor) hit {
	const least, examined = 48, 64 // both decode without a remainder, twice
	to := runEnd(c.text, c.pos, classBase64)
	if to-c.pos < least {
		return hit{retry: to}
	}
	token, err := base64.StdEncoding.DecodeString(c.text[c.pos : c.pos+min(to-c.pos, examined)&^15])
	if err != nil {
		return hit{retry: to}
	}
	head, _, _ := strings.Cut(string(token), ".")
	header, _ := base64.RawURLEncoding.DecodeString(head)
	if !strings.HasPrefix(string(header), `{"`) {
		return hit{retry: to}
	}
	return hit{from: c.pos, to: to, text: c.mask}
}

// mailgun matches key- and exactly 32 hexadecimal digits.
func mailgun(c cursor) hit {
	h := token("key-", classHex, 32)(c)
	if before := byteAt(c.text, c.pos-1); h.to != c.pos+len("key-")+32 || isAlnum(byteAt(c.text, h.to)) || before == '-' || before == '_' {
		return hit{}
	}
	return h
}

// airtable matches pat, an id of 14 letters and digits, a dot and a key.
func airtable(c cursor) hit {
	const id, key = 14, 64
	dot := c.pos + len("pat") + id
	if byteAt(c.text, dot) != '.' || runEnd(c.text, c.pos, classLetter|classDigit) != dot {
		return hit{}
	}
	to := runEnd(c.text, dot+1, classHex)
	if to-dot-1 < key {
		return hit{}
	}
	return hit{from: c.pos, to: to, text: c.mask}
}
