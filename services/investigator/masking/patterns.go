package masking

import (
	"slices"
	"strings"
)

// kubernetesSecret names the masking by structure, which is always on.
const kubernetesSecret = "kubernetes_secret" //nolint:gosec // the name of a pattern

// names are the patterns in the order of their use: a narrow one before a wide one.
var names = []string{
	kubernetesSecret, "certificate", "certificate_authority_data", "ssh_key", "aws_access_key", "aws_secret_key", "github_token", "slack_token",
	"private_key", "secret_key", "api_key", "password", "token", "email", "base64_secret", "base64_short",
}

// groups are the reference's.
var groups = map[string][]string{
	"basic":      {"api_key", "password"},
	"secrets":    {"api_key", "password", "token", "private_key", "secret_key"},
	"security":   {"api_key", "password", "token", "certificate", "certificate_authority_data", "email", "ssh_key"},
	"kubernetes": {kubernetesSecret, "api_key", "password", "certificate_authority_data"},
	"cloud":      {"aws_access_key", "aws_secret_key", "api_key", "token"},
	"all":        names,
}

// Names returns the names of the patterns, sorted.
func Names() []string { return slices.Sorted(slices.Values(names)) }

// Groups returns the names of the groups, the smallest first.
func Groups() []string { return []string{"basic", "secrets", "security", "kubernetes", "cloud", "all"} }

// pattern replaces the matches of a kind of secret.
type pattern struct {
	mask  string
	match func(text string) [][]int
}

// patterns find the values to mask, in order and without overlaps, in linear time.
var patterns = map[string]func(string) [][]int{
	"certificate":                armored,
	"certificate_authority_data": named([]string{"certificateauthoritydata", "cadata", "cabundle"}, base64Byte, 20),
	"ssh_key":                    sshKeys,
	"aws_access_key":             prefixed([]string{"AKIA", "ASIA"}, upperDigit, 16),
	"aws_secret_key":             named([]string{"awssecretaccesskey", "awssecretkey", "secretaccesskey"}, base64Byte, 40),
	"github_token":               prefixed([]string{"ghp_", "ghs_", "gho_", "ghu_", "ghr_", "github_pat_"}, wordByte, 20),
	"slack_token":                prefixed([]string{"xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-", "xoxe-"}, wordDash, 10),
	"private_key":                named([]string{"privatekey"}, tokenByte, 20),
	"secret_key":                 named([]string{"secretkey"}, tokenByte, 20),
	"api_key":                    named([]string{"apikey", "accesskey", "authkey"}, wordDash, 20),
	"password":                   named([]string{"password", "passwd", "passphrase", "pwd", "pass"}, valueByte, 6),
	"token":                      named([]string{"token", "bearer", "jwt"}, tokenByte, 20),
	"email":                      emails,
	"base64_secret":              base64Long,
	"base64_short":               base64Short,
}

func letter(c byte) bool     { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool      { return '0' <= c && c <= '9' }
func alnum(c byte) bool      { return letter(c) || digit(c) }
func upperDigit(c byte) bool { return 'A' <= c && c <= 'Z' || digit(c) }
func wordByte(c byte) bool   { return alnum(c) || c == '_' }
func wordDash(c byte) bool   { return wordByte(c) || c == '-' }
func tokenByte(c byte) bool  { return wordDash(c) || c == '.' }
func base64Byte(c byte) bool { return alnum(c) || c == '+' || c == '/' || c == '=' }
func valueByte(c byte) bool  { return c > ' ' && c != '"' && c != '\'' && c != '\\' && c != 0x7f }

// maxName is how much of a name before a value is examined, in bytes.
const maxName = 64

// named returns a match of values of at least least bytes of a class, after one of the names and
// a colon or equals sign. A name matches without case and separators, as the end of a longer
// one too: apikey matches STRIPE_API_KEY.
func named(ends []string, class func(byte) bool, least int) func(string) [][]int {
	return func(text string) (found [][]int) {
		for i := 0; i < len(text); i++ {
			if c := text[i]; c != ':' && c != '=' || !nameEnds(text[:i], ends) {
				continue
			}
			from := i + 1
			for from < len(text) && from <= i+maxName && strings.IndexByte(" \t\\\"'", text[from]) >= 0 {
				from++
			}
			to := from
			for to < len(text) && class(text[to]) {
				to++
			}
			for to > from && strings.IndexByte(",;)}]", text[to-1]) >= 0 { // they end what is around the value
				to--
			}
			if to-from >= least {
				found = append(found, []int{from, to})
				i = to - 1
			}
		}
		return found
	}
}

// nameEnds reports whether text ends with one of the names, and perhaps a quote and space.
func nameEnds(text string, ends []string) bool {
	i, floor := len(text), max(len(text)-maxName, 0)
	for i > floor && strings.IndexByte(" \t\\\"'", text[i-1]) >= 0 {
		i--
	}
	if i == floor || !letter(text[i-1]) { // every name ends with a letter
		return false
	}
	for _, end := range ends {
		if k, ok := before(text[:i], end); ok && (k == 0 || len(end) > 4 || !letter(text[k-1]) || text[k-1] > 'Z' != (text[k] > 'Z')) {
			return true
		}
	}
	return false
}

// before returns where a name begins that text ends with, separators aside.
func before(text, name string) (int, bool) {
	i := len(text)
	for k := len(name) - 1; k >= 0; k-- {
		for i > 0 && k < len(name)-1 && (text[i-1] == '_' || text[i-1] == '-') {
			i--
		}
		if i == 0 || text[i-1]|0x20 != name[k] {
			return 0, false
		}
		i--
	}
	return i, true
}

// prefixed returns a match of tokens with a start that no word has, and at least least bytes of a
// class.
func prefixed(starts []string, class func(byte) bool, least int) func(string) [][]int {
	return func(text string) (found [][]int) {
		for _, start := range starts {
			for at := 0; ; {
				i := strings.Index(text[at:], start)
				if i < 0 {
					break
				}
				from := at + i
				to := from + len(start)
				for to < len(text) && class(text[to]) {
					to++
				}
				if to-from-len(start) >= least && (from == 0 || !alnum(text[from-1])) {
					found = append(found, []int{from, to})
				}
				at = to
			}
		}
		slices.SortFunc(found, func(a, b []int) int { return a[0] - b[0] })
		return found
	}
}

// armored matches certificates and keys in PEM. One without an end reaches to the end of the text.
func armored(text string) (found [][]int) {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	for at := 0; ; {
		i := strings.Index(text[at:], begin)
		if i < 0 {
			return found
		}
		from := at + i
		to := len(text)
		if j := strings.Index(text[from:], end); j >= 0 {
			to = from + j + len(end)
			if k := strings.Index(text[to:min(len(text), to+maxName)], dashes); k >= 0 {
				to += k + len(dashes)
			}
		}
		found = append(found, []int{from, to})
		at = to
	}
}

// sshKeys matches public keys of SSH.
func sshKeys(text string) (found [][]int) {
	const least = 16
	for i := 0; i < len(text); {
		next := nextOf(text, i, "ssh-", "ecdsa-")
		if next < 0 {
			return found
		}
		from, to := next, next
		for to < len(text) && (wordDash(text[to]) || text[to] == '@' || text[to] == '.') {
			to++
		}
		i = to
		for i < len(text) && i <= to+maxName && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
		blob := i
		if !strings.HasPrefix(text[blob:], "AAAA") {
			i = max(to, next+1)
			continue
		}
		for i < len(text) && base64Byte(text[i]) {
			i++
		}
		if i-blob >= least {
			found = append(found, []int{from, i})
		}
	}
	return found
}

// nextOf returns the first position from i on where one of two texts begins, or -1.
func nextOf(text string, i int, a, b string) int {
	for ; i < len(text); i++ {
		if c := text[i]; c == a[0] && strings.HasPrefix(text[i:], a) || c == b[0] && strings.HasPrefix(text[i:], b) {
			return i
		}
	}
	return -1
}

// emails matches addresses: at most 64 bytes before the @, and a domain with a dot.
func emails(text string) (found [][]int) {
	const most = 253
	local := func(c byte) bool { return alnum(c) || strings.IndexByte("._%+-", c) >= 0 }
	domain := func(c byte) bool { return alnum(c) || c == '.' || c == '-' }
	floor := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '@' {
			continue
		}
		from, to := i, i+1
		for from > floor && i-from < maxName && local(text[from-1]) {
			from--
		}
		for to < len(text) && to-i <= most && domain(text[to]) {
			to++
		}
		for to > i+1 && !letter(text[to-1]) {
			to--
		}
		dot := strings.LastIndexByte(text[i+1:to], '.')
		if from == i || dot < 1 || to-(i+1+dot)-1 < 2 {
			continue
		}
		found = append(found, []int{from, to})
		floor, i = to, to-1
	}
	return found
}

// base64Long matches runs of 20 bytes and more.
func base64Long(text string) (found [][]int) {
	const least = 20
	for i := 0; i < len(text); {
		if !base64Byte(text[i]) || text[i] == '=' {
			i++
			continue
		}
		from := i
		for i < len(text) && base64Byte(text[i]) && text[i] != '=' {
			i++
		}
		run := i - from
		for pad := 0; i < len(text) && pad < 2 && text[i] == '='; pad++ {
			i++
		}
		if run >= least {
			found = append(found, []int{from, i})
		}
	}
	return found
}

// base64Short matches whole groups of four, 4 to 20 bytes, after a colon and before space.
func base64Short(text string) (found [][]int) {
	const least, most = 4, 20
	for i := 0; i < len(text); i++ {
		if text[i] != ':' {
			continue
		}
		from := i + 1
		for from < len(text) && from <= i+maxName && (text[from] == ' ' || text[from] == '\t') {
			from++
		}
		to := from
		for to < len(text) && to-from <= most && base64Byte(text[to]) {
			to++
		}
		if n := to - from; from > i+1 && n >= least && n <= most && n%4 == 0 && (to == len(text) || strings.IndexByte(" \t\r\n", text[to]) >= 0) {
			found = append(found, []int{from, to})
			i = to - 1
		}
	}
	return found
}
