package redact

import "strings"

// allRules lists the rules. Where two match at one place the first one counts.
func allRules() []rule {
	rules := []rule{
		{prefix: "=", named: true, mask: Mask, match: pair},
		{prefix: ":", named: true, mask: Mask, match: pair},
		{prefix: "%", named: true, mask: Mask, match: encoded},
		{prefix: "<", named: true, mask: Mask, match: element},
	}
	add := func(name, prefix string, match func(cursor) hit) {
		rules = append(rules, rule{prefix: prefix, mask: maskOf(name), match: match})
	}
	for _, p := range []string{"AKIA", "ASIA", "ABIA", "ACCA"} {
		add("aws", p, token(p, classUpperDigit, 16))
	}
	add("google", "AIza", token("AIza", classToken, 30))
	add("google", "ya29.c.", token("ya29.c.", classToken, 20))
	add("google", "ya29.", token("ya29.", classToken, 20))
	add("google", "GOCSPX-", token("GOCSPX-", classToken, 20))
	add("azure", "AccountKey=", after("AccountKey=", classBase64, 20))
	for _, p := range []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"} {
		add("github", p, token(p, classToken, 20))
	}
	add("gitlab", "gl", gitlab)
	add("gitlab", "GR1348941", token("GR1348941", classToken, 20))
	add("slack", "xox", slack)
	add("slack", "xapp-", token("xapp-", classToken, 16))
	for _, p := range []string{"services/", "workflows/", "triggers/"} {
		hook := "hooks.slack.com/" + p
		add("slack", hook, after(hook, classBase64, 10))
	}
	add("anthropic", "sk-ant-", token("sk-ant-", classToken, 10))
	for _, p := range []string{"sk-proj-", "sk-svcacct-", "sk-admin-"} {
		add("openai", p, token(p, classToken, 16))
	}
	add("openai", "sk-", openai)
	for _, p := range []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_"} {
		add("stripe", p, token(p, classToken, 10))
	}
	add("stripe", "whsec_", token("whsec_", classBase64, 16))
	for _, p := range []string{"dop_v1_", "doo_v1_", "dor_v1_"} {
		add("digitalocean", p, token(p, classHex, 40))
	}
	add("shopify", "shp", oneOf(classHex, 32, "shpat_", "shpca_", "shppa_", "shpss_"))
	add("square", "sq0", oneOf(classToken, 20, "sq0atp-", "sq0csp-", "sq0idp-"))
	add("docker", "dckr_", oneOf(classToken, 20, "dckr_pat_", "dckr_oat_"))
	add("huggingface", "hf_", atWord(withDigit(token("hf_", classLetter|classDigit, 30))))
	add("groq", "gsk_", atWord(token("gsk_", classLetter|classDigit, 40)))
	add("vault", "hvs.", atWord(withDigit(token("hvs.", classToken, 24))))
	add("age", "AGE-SECRET-KEY-1", token("AGE-SECRET-KEY-1", classUpperDigit, 40))
	add("npm", "npm_", atWord(token("npm_", classToken, 30)))
	add("pypi", "pypi-", atWord(token("pypi-", classToken, 40)))
	add("twilio", "SK", twilio)
	add("sendgrid", "SG.", sendgrid)
	add("jwt", "eyJ", jwt)
	add("private_key", "-----BEGIN ", privateKey)
	add("url_credentials", "//", urlCredentials)
	add("url_credentials", `/\/`, urlCredentials)
	rules = append(rules,
		rule{prefix: "bearer", fold: true, mask: maskOf("bearer"), match: atWord(bearer)},
		rule{prefix: "basic", fold: true, mask: maskOf("basic"), match: atWord(basic)})
	for _, digit := range []string{"2", "3", "4", "5", "6"} {
		add("card", digit, card)
	}
	return rules
}

func maskOf(rule string) string { return "[REDACTED:" + rule + "]" }

// token matches a prefix and at least least bytes of a class, all that there
// are. Less is not a match, so that a failure costs at most least steps.
func token(prefix string, c class, least int) func(cursor) hit {
	return func(cur cursor) hit {
		h := after(prefix, c, least)(cur)
		if h.to != 0 {
			h.from = cur.at
		}
		return h
	}
}

// after is token, but leaves the prefix standing.
func after(prefix string, c class, least int) func(cursor) hit {
	return func(cur cursor) hit {
		from := cur.at + len(prefix)
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
		if !wordStart(c.text, c.at) {
			return hit{}
		}
		return match(c)
	}
}

// withDigit lets a rule match only what holds a digit, as words seldom do.
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
	dash := c.at + 2
	for dash < len(c.text) && dash < c.at+8 && isLetter(c.text[dash]) {
		dash++
	}
	if byteAt(c.text, dash) != '-' {
		return hit{}
	}
	switch c.text[c.at+2 : dash] {
	case "pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "oas", "soat", "ffct":
		return token(c.text[c.at:dash+1], classToken, 16)(c)
	default:
		return hit{}
	}
}

// slack matches xoxb-, xoxp- and so on, and the rotated xoxe.xoxb-.
func slack(c cursor) hit {
	kind, sep := byteAt(c.text, c.at+3), byteAt(c.text, c.at+4)
	if strings.IndexByte("abcdeoprs", kind) < 0 || sep != '-' && sep != '.' {
		return hit{}
	}
	return token(c.text[c.at:c.at+5], classToken, 10)(c)
}

// oneOf matches whichever of the prefixes there is, as token does.
func oneOf(c class, least int, prefixes ...string) func(cursor) hit {
	return func(cur cursor) hit {
		for _, p := range prefixes {
			if strings.HasPrefix(cur.text[cur.at:], p) {
				return token(p, c, least)(cur)
			}
		}
		return hit{}
	}
}

// openai matches sk- and a key. Names of style classes begin like that too,
// which are small letters and dashes.
func openai(c cursor) hit {
	h := atWord(token("sk-", classToken, 20))(c)
	if h.to == 0 || strings.IndexFunc(c.text[c.at+3:h.to], func(r rune) bool { return digitOrUpper(byte(r)) }) >= 0 {
		return h
	}
	for part := range strings.FieldsFuncSeq(c.text[c.at+3:h.to], func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= 20 {
			return h
		}
	}
	return hit{retry: h.to}
}

// twilio matches SK and exactly 32 hexadecimal digits.
func twilio(c cursor) hit {
	h := atWord(token("SK", classHex, 32))(c)
	if h.to != c.at+34 || isAlnum(byteAt(c.text, h.to)) {
		return hit{retry: h.to}
	}
	return h
}

// sendgrid matches SG., an id, a dot and a key.
func sendgrid(c cursor) hit {
	dot := runEnd(c.text, c.at+3, classToken)
	if dot-c.at-3 < 16 || byteAt(c.text, dot) != '.' {
		return hit{retry: dot}
	}
	to := runEnd(c.text, dot+1, classToken)
	if to-dot-1 < 16 {
		return hit{retry: dot}
	}
	return hit{from: c.at, to: to, text: c.mask}
}

// jwt matches base64url parts joined by dots, of which the first is the JSON
// of a header. Two are enough when the second is JSON as well: the signature
// may have been cut off.
func jwt(c cursor) hit {
	const shortest = 8
	first := runEnd(c.text, c.at, classToken)
	if first-c.at < shortest || byteAt(c.text, first) != '.' {
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
	return hit{from: c.at, to: to, text: c.mask}
}
