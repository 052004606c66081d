package redact

import "strings"

// longFlag matches the argument of a long flag with a sensitive name:
// --password abc, and that of --user where a command takes a password in it.
func longFlag(c cursor) hit {
	s, from := c.text, c.pos+len("--")
	if before := byteAt(s, c.pos-1); before == '-' || isAlnum(before) && !wordStart(s, c.pos) || !isLetter(byteAt(s, from)) {
		return hit{}
	}
	to := from
	for to < len(s) && to-from < maxName && (isAlnum(s[to]) || s[to] == '-' || s[to] == '_') {
		to++
	}
	name := s[from:to]
	if c := byteAt(s, to); c != ' ' && c != '\t' && (c != '=' || name != "user" && name != "proxy-user") {
		return hit{}
	}
	value := skipSpace(s, to, false)
	if s[to] == '=' {
		value = to + 1
	}
	if name == "user" || name == "proxy-user" {
		return c.afterColon(value, commandBefore(c, 'u'))
	}
	secret := func(string) bool { return true }
	switch g, last := c.engine.names.grade(name); {
	case g == strong && last:
	case g == weak && last, name == "pass":
		secret = looksSecret
	default:
		return hit{}
	}
	if strings.HasPrefix(s[value:], "id=") || strings.HasPrefix(s[value:], "type=") { // a mount of docker build
		return hit{}
	}
	return plainSecret(c, value, secret)
}

const (
	// curlFlags are the one-letter flags without an argument that stand before
	// -u in one word.
	curlFlags = "sSfkiLvgGINj"
	// maxFlags is the maximum length of such a word.
	maxFlags = 12
)

// shortFlag matches the argument of -p, -u and -a of a command that takes a password there, and that
// of -u after other flags of curl, as in -fsSu.
func shortFlag(c cursor) hit {
	s := c.text
	flag := c.pos + len(" -")
	for flag < len(s) && flag-c.pos < maxFlags && is(s[flag], classCurlFlag) {
		flag++
	}
	kind := byteAt(s, flag)
	if kind != 'u' && (flag > c.pos+len(" -") || kind != 'p' && kind != 'a') {
		return hit{}
	}
	from := skipSpace(s, flag+1, false)
	if from >= len(s) || s[from] == '-' || s[from] == '\n' || s[from] == '\r' {
		return hit{}
	}
	command := commandBefore(c, kind)
	attached := from == flag+1
	switch {
	case command == "":
		return hit{}
	case kind == 'u', kind == 'a' && command != "redis-cli":
		if h := c.afterColon(from, command); h.to > 0 || kind == 'u' {
			return h
		}
		return plainSecret(c, from, looksSecret)
	case kind == 'p' && !attached && (strings.HasPrefix(command, "mysql") || strings.HasPrefix(command, "mariadb")):
		return plainSecret(c, from, looksSecret) // as likely the name of a database
	default:
		return plainSecret(c, from, func(string) bool { return true })
	}
}

// afterColon masks the password of user:password, where there is a command that
// takes it.
func (c cursor) afterColon(from int, command string) hit {
	s := c.text
	if command == "" {
		return hit{}
	}
	escapes := runEndOf(s, from, '\\')
	quoted := isQuote(byteAt(s, escapes))
	var to int
	if quoted {
		to = quotedEnd(s, escapes+1, escapes-from)
		from = escapes + 1
	} else {
		to = plainEnd(s, from, modeText)
	}
	colon := strings.IndexByte(s[from:to], ':')
	if colon < 0 || placeholder(s[from+colon+1:to]) || !quoted && strings.HasPrefix(s[from+colon+1:], "//") {
		return hit{}
	}
	return hit{from: from + colon + 1, to: to, text: Mask}
}

// commandBefore returns the command on the line before the cursor that takes a password as the
// argument of a flag of one letter, or an empty text.
func commandBefore(c cursor, flag byte) string {
	const far = 256
	from := c.pos
	for from > max(0, c.pos-far) && !is(c.text[from-1], classCommandEnd) {
		from--
	}
	line := c.text[from:c.pos]
	if !mayTakePassword(line, flag) {
		return ""
	}
	login := false
	for rest := line; rest != ""; {
		i := strings.LastIndexAny(rest, " \t\"'`\\=([,")
		word := rest[i+1:]
		rest = rest[:max(i, 0)]
		if takesPassword(word, flag) {
			return word[strings.LastIndexByte(word, '/')+1:]
		}
		if flag == 'p' {
			login = login || word == "login"
			if login && logsIn(word) {
				return word
			}
		}
	}
	return ""
}

// mayTakePassword reports whether a line has a part of the name of a command that takes a password
// as the argument of a flag.
func mayTakePassword(line string, flag byte) bool {
	parts := [...]string{"mysql", "maria", "mongo", "sshpass", "login"}
	switch flag {
	case 'u':
		parts = [5]string{"curl", "wget"}
	case 'a':
		parts = [5]string{"redis-cli", "http", "xh"}
	}
	for _, part := range parts {
		if part != "" && strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// takesPassword reports whether a command takes a password as the argument of a flag.
func takesPassword(command string, flag byte) bool {
	command = command[strings.LastIndexByte(command, '/')+1:]
	switch flag {
	case 'p':
		switch command {
		case "mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlcheck", "mysqlslap", "mysqlpump", "mysqlbinlog", "mysqlshow", "mariadb", "mariadb-dump", "mariadb-admin", "mariadb-import",
			"mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport", "sshpass":
			return true
		}
	case 'u':
		return command == "curl" || command == "wget"
	case 'a':
		return command == "redis-cli" || command == "http" || command == "https" || command == "xh"
	}
	return false
}

// logsIn reports whether a command has a subcommand login that takes a password.
func logsIn(command string) bool {
	switch command[strings.LastIndexByte(command, '/')+1:] {
	case "docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oc", "az":
		return true
	}
	return false
}
