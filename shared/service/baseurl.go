package service

import (
	"errors"
	"net/url"
	"strings"
)

// errBaseURL shows no part of the URL, because it may contain a password.
var errBaseURL = errors.New("must be a URL such as http://127.0.0.1:7490 or https://tocsin.example/path, without user and query")

// BaseURL parses the URL of an HTTP service. The service's paths begin below its path, which has no
// slash at the end; names in it need no encoding.
func BaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errBaseURL
	}
	if strings.Trim(strings.ToLower(u.Host), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") != "" {
		return nil, errBaseURL
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for i, segment := range strings.Split(path, "/") {
		if i > 0 && (strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, needsEncoding)) {
			return nil, errBaseURL
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// needsEncoding reports whether a URL can't have a character as it is (RFC 3986, section 2.3).
func needsEncoding(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", c)
}
