package redact

import "strings"

// allRules lists the rules. Where two match at one position the first one applies.
func allRules() []rule {
	var rules []rule
	named := func(match func(cursor) hit, starts ...string) {
		rules = append(rules, rule{starts: starts, byName: true, mask: Mask, match: match})
	}
	folded := func(match func(cursor) hit, starts ...string) {
		rules = append(rules, rule{starts: starts, ignoreCase: true, byName: true, mask: Mask, match: match})
	}
	shape := func(name string, match func(cursor) hit, starts ...string) {
		rules = append(rules, rule{starts: starts, mask: maskOf(name), match: match})
	}
	tokens := func(name string, c class, least int, starts ...string) {
		shape(name, oneOf(c, least, starts...), starts...)
	}
	named(namedValue, "=")
	named(namedValue, ":")
	named(encoded, "%", "+")
	named(element, "<")
	named(arrow, "->")
	named(cell, "|")
	named(tabbed, "\t", `\t`)
	named(longFlag, eachOf("--", letters)...)
	named(shortFlag, eachOf(" -", "pua"+curlFlags)...)
	named(isValue, " is ")
	named(listElement, `",`, "',")
	folded(values, "values")
	folded(identifiedBy, "identified ", "password ")
	folded(authCommand, "auth ")
	shape("url_credentials", driverCredentials, "@tcp(", "@unix(", "@//")
	tokens("aws", classUpperDigit, 16, "AKIA", "ASIA", "ABIA", "ACCA")
	tokens("google", classToken, 30, "AIza")
	tokens("google", classToken, 20, "ya29.c.", "ya29.", "GOCSPX-")
	shape("azure", after("AccountKey=", classBase64, 20), "AccountKey=")
	tokens("github", classToken, 20, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")
	shape("gitlab", gitlab, "gl")
	tokens("gitlab", classToken, 20, "GR1348941")
	shape("slack", slack, "xox")
	tokens("slack", classToken, 16, "xapp-")
	shape("slack", slackHook, "hooks.slack.com/")
	tokens("anthropic", classToken, 10, "sk-ant-")
	tokens("openai", classToken, 16, "sk-proj-", "sk-svcacct-", "sk-admin-")
	shape("openai", openai, "sk-")
	tokens("stripe", classToken, 10, "sk_live_", "sk_test_", "rk_live_", "rk_test_")
	tokens("stripe", classBase64, 16, "whsec_")
	tokens("digitalocean", classHex, 40, "dop_v1_", "doo_v1_", "dor_v1_")
	tokens("shopify", classHex, 32, "shpat_", "shpca_", "shppa_", "shpss_")
	tokens("square", classToken, 20, "sq0atp-", "sq0csp-", "sq0idp-")
	tokens("docker", classToken, 20, "dckr_pat_", "dckr_oat_")
	shape("huggingface", atWord(withDigit(token("hf_", classLetter|classDigit, 30))), "hf_")
	shape("groq", atWord(token("gsk_", classLetter|classDigit, 40)), "gsk_")
	shape("vault", atWord(withDigit(token("hvs.", classToken, 24))), "hvs.")
	tokens("age", classUpperDigit, 40, "AGE-SECRET-KEY-1")
	shape("npm", atWord(token("npm_", classToken, 30)), "npm_")
	shape("pypi", atWord(token("pypi-", classToken, 40)), "pypi-")
	shape("twilio", twilio, "SK")
	shape("sendgrid", sendgrid, "SG.")
	shape("nkey", nkeySeed, "SO", "SA", "SU", "SN", "SC", "SX")
	shape("jwt", jwt, "eyJ")
	shape("private_key", privateKey, "-----BEGIN")
	shape("private_key", privateKeyEnd, "-----END")
	shape("url_credentials", urlCredentials, "//", `/\/`)
	shape("base64", base64Prefixed, "base64:")
	shape("telegram", telegram, ":AA")
	shape("discord", discordHook, "discord")
	shape("teams", teamsHook, "webhookb2/")
	shape("azure", azureSecret, "Q~")
	shape("terraform", terraform, ".atlasv1.")
	rules = append(rules,
		rule{match: vendorToken},
		rule{starts: []string{"bearer"}, ignoreCase: true, mask: maskOf("bearer"), match: atWord(bearer)},
		rule{starts: []string{"basic"}, ignoreCase: true, mask: maskOf("basic"), match: atWord(basic)})
	shape("card", card, "2", "3", "4", "5", "6")
	return rules
}

// letters are those of ASCII.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// eachOf returns starts that continue the same prefix with one byte of several.
func eachOf(before, ends string) []string {
	starts := make([]string, len(ends))
	for i := range len(ends) {
		starts[i] = before + ends[i:i+1]
	}
	return starts
}

func maskOf(rule string) string { return "[REDACTED:" + rule + "]" }

// token matches a prefix and a run of at least least bytes of a class. A shorter run is no match, so
// that a failure costs at most least steps.
func token(prefix string, c class, least int) func(cursor) hit {
	return func(cur cursor) hit {
		h := after(prefix, c, least)(cur)
		if h.to != 0 {
			h.from = cur.pos
		}
		return h
	}
}

// after is token, but does not mask the prefix.
func after(prefix string, c class, least int) func(cursor) hit {
	return func(cur cursor) hit {
		from := cur.pos + len(prefix)
		to := runEnd(cur.text, from, c)
		for to > from && cur.text[to-1] == '.' { // it ends a sentence
			to--
		}
		if to-from < least {
			return hit{}
		}
		return hit{from: from, to: to, text: cur.mask}
	}
}

// atWord lets a rule match only where a word begins.
func atWord(match func(cursor) hit) func(cursor) hit {
	return func(c cursor) hit {
		if !wordStart(c.text, c.pos) {
			return hit{}
		}
		return match(c)
	}
}

// withDigit lets a rule match only text with a digit, which words seldom have.
func withDigit(match func(cursor) hit) func(cursor) hit {
	return func(c cursor) hit {
		if h := match(c); h.to == 0 || strings.ContainsAny(c.text[h.from:h.to], "0123456789") {
			return h
		}
		return hit{}
	}
}

// gitlab matches glpat- and its siblings: gl, a few letters, a dash.
func gitlab(c cursor) hit {
	dash := c.pos + 2
	for dash < len(c.text) && dash < c.pos+8 && isLetter(c.text[dash]) {
		dash++
	}
	if byteAt(c.text, dash) != '-' {
		return hit{}
	}
	switch c.text[c.pos+2 : dash] {
	case "pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "oas", "soat", "ffct":
		return token(c.text[c.pos:dash+1], classToken, 16)(c)
	default:
		return hit{}
	}
}

// slack matches xoxb-, xoxp- and so on, and the rotated xoxe.xoxb-.
func slack(c cursor) hit {
	kind, sep := byteAt(c.text, c.pos+3), byteAt(c.text, c.pos+4)
	if strings.IndexByte("abcdeoprs", kind) < 0 || sep != '-' && sep != '.' {
		return hit{}
	}
	return token(c.text[c.pos:c.pos+5], classToken, 10)(c)
}

// slackHook matches the path of a webhook's URL.
func slackHook(c cursor) hit {
	for _, kind := range []string{"services/", "workflows/", "triggers/"} {
		if start := "hooks.slack.com/" + kind; strings.HasPrefix(c.text[c.pos:], start) {
			return after(start, classBase64, 10)(c)
		}
	}
	return hit{}
}

// oneOf is token for one of several prefixes.
func oneOf(c class, least int, prefixes ...string) func(cursor) hit {
	return func(cur cursor) hit {
		for _, p := range prefixes {
			if strings.HasPrefix(cur.text[cur.pos:], p) {
				return token(p, c, least)(cur)
			}
		}
		return hit{}
	}
}

// openai matches sk- and a key. Names of style classes begin like that too, and have lower-case
// letters and dashes only.
func openai(c cursor) hit {
	h := atWord(token("sk-", classToken, 20))(c)
	if h.to == 0 || strings.IndexFunc(c.text[c.pos+3:h.to], func(r rune) bool { return digitOrUpper(byte(r)) }) >= 0 {
		return h
	}
	for part := range strings.FieldsFuncSeq(c.text[c.pos+3:h.to], func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= 20 {
			return h
		}
	}
	return hit{retry: h.to}
}

// twilio matches SK and exactly 32 hexadecimal digits.
func twilio(c cursor) hit {
	h := atWord(token("SK", classHex, 32))(c)
	if h.to != c.pos+34 || isAlnum(byteAt(c.text, h.to)) {
		return hit{retry: h.to}
	}
	return h
}

// sendgrid matches SG., an id, a dot and a key.
func sendgrid(c cursor) hit {
	dot := runEnd(c.text, c.pos+3, classToken)
	if dot-c.pos-3 < 16 || byteAt(c.text, dot) != '.' {
		return hit{retry: dot}
	}
	to := runEnd(c.text, dot+1, classToken)
	if to-dot-1 < 16 {
		return hit{retry: dot}
	}
	return hit{from: c.pos, to: to, text: c.mask}
}

// jwt matches base64url parts joined by dots. The first part is the JSON of a header. Two parts are
// enough when the second is JSON as well: the signature may be truncated.
func jwt(c cursor) hit {
	const shortest = 8
	first := runEnd(c.text, c.pos, classToken)
	if first-c.pos < shortest || byteAt(c.text, first) != '.' {
		return hit{retry: first}
	}
	second := runEnd(c.text, first+1, classToken)
	claims := strings.HasPrefix(c.text[first+1:second], "eyJ")
	if !claims && byteAt(c.text, second) != '.' {
		return hit{retry: first}
	}
	to := second
	for byteAt(c.text, to) == '.' {
		end := runEnd(c.text, to+1, classToken)
		if end == to+1 && to != second {
			break
		}
		to = end
	}
	if !claims && to-second < shortest {
		return hit{retry: first}
	}
	return hit{from: c.pos, to: to, text: c.mask}
}

// nkeySeed matches the seed of a NATS key: 58 letters and digits of base32.
func nkeySeed(c cursor) hit {
	const length = 58
	end := c.pos
	for end < len(c.text) && end-c.pos <= length && (isUpper(c.text[end]) || c.text[end] >= '2' && c.text[end] <= '7') {
		end++
	}
	if end-c.pos != length || isAlnum(byteAt(c.text, end)) || !wordStart(c.text, c.pos) {
		return hit{}
	}
	return hit{from: c.pos, to: end, text: c.mask}
}

// base64Prefixed matches a text with the prefix base64.
func base64Prefixed(c cursor) hit {
	h := atWord(after("base64:", classBase64, 24))(c)
	if h.to == 0 || strings.ContainsAny(c.text[h.from:h.to], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return h
	}
	return hit{}
}

// telegram matches the token of a bot: its number, a colon and AA.
func telegram(c cursor) hit {
	const least, most, key = 6, 12, 30
	from := c.pos
	for from > c.floor && c.pos-from <= most && is(c.text[from-1], classDigit) {
		from--
	}
	to := runEnd(c.text, c.pos+1, classToken)
	if n := c.pos - from; n < least || n > most || to-c.pos-1 < key || !wordStart(c.text, from) && !strings.HasSuffix(c.text[:from], "/bot") {
		return hit{}
	}
	return hit{from: from, to: to, text: c.mask}
}

// discordHook matches the path of a webhook's URL.
func discordHook(c cursor) hit {
	const far, mark = 48, "/webhooks/"
	i := strings.Index(c.text[c.pos:min(len(c.text), c.pos+far)], mark)
	if i < 0 || strings.ContainsAny(c.text[c.pos:c.pos+i], " \n\"") {
		return hit{}
	}
	return after(c.text[c.pos:c.pos+i+len(mark)], classBase64, 20)(c)
}

// teamsHook matches the path of a webhook's URL.
func teamsHook(c cursor) hit {
	const shortest = 32
	from := c.pos + len("webhookb2/")
	to := from
	for to < len(c.text) && (is(c.text[to], classToken) || c.text[to] == '@' || c.text[to] == '/') {
		to++
	}
	if to-from < shortest {
		return hit{}
	}
	return hit{from: from, to: to, text: c.mask}
}

// azureSecret matches the secret of an application: three characters, a digit,
// Q~ and the rest.
func azureSecret(c cursor) hit {
	const lead, least = 4, 30
	from := c.pos - lead
	if from < c.floor || !is(c.text[c.pos-1], classDigit) || runEnd(c.text, from, classBase64) < c.pos || isAlnum(byteAt(c.text, from-1)) {
		return hit{}
	}
	h := after("Q~", classBase64, least)(c)
	if h.to == 0 {
		return h
	}
	return hit{from: from, to: h.to, text: c.mask}
}

// terraform matches the texts before and after .atlasv1.
func terraform(c cursor) hit {
	const lead, least = 14, 40
	from := c.pos
	for from > c.floor && c.pos-from < lead && isAlnum(c.text[from-1]) {
		from--
	}
	h := after(".atlasv1.", classBase64, least)(c)
	if h.to == 0 {
		return h
	}
	return hit{from: from, to: h.to, text: c.mask}
}
