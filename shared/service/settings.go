package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/lmittmann/tint"
	"go.yaml.in/yaml/v3"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func (s Settings) stateDir() (string, error) {
	dir := s.StateDir
	if dir == "" {
		var err error
		if dir, err = statedir.Default(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	return abs, nil
}

// newLogger logs to w, which is stderr: stdout belongs to what a command
// answers. On a terminal the lines are short and coloured.
func newLogger(s Settings, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo // not reached: kong has checked the value
	}
	switch {
	case s.LogFormat == "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	case isTerminal(w):
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly}))
	default:
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// forgetEmpty makes environment variables that are set to nothing, or to white
// space, count as not set, as a compose file or a shell leaves them where a
// value is missing. A flag with the tag "empty" takes that for a value. Others
// that are not set stay: --help names them.
func forgetEmpty(n *kong.Node) {
	for _, f := range n.Flags {
		if f.Tag.Has("empty") {
			continue
		}
		f.Tag.Envs = slices.DeleteFunc(f.Tag.Envs, func(name string) bool {
			value, set := os.LookupEnv(name)
			return set && strings.TrimSpace(value) == ""
		})
		f.Envs = f.Tag.Envs
	}
	for _, child := range n.Children {
		forgetEmpty(child)
	}
}

// defaultFile is the settings file where none is named.
const defaultFile = "tocsin.yaml"

// OnlyNamedFile is a command that reads no settings file but one that is named by
// --config. Agents start such commands in whatever project they work in, and a
// project that was cloned from somewhere must not say which bus is joined, where
// files are written or what is listened on.
type OnlyNamedFile interface{ OnlyNamedFile() }

// onlyNamedFile says whether what was asked for is such a command.
func onlyNamedFile(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Path, func(word *kong.Path) bool {
		node := word.Node()
		if node == nil || !node.Target.CanAddr() {
			return false
		}
		_, only := node.Target.Addr().Interface().(OnlyNamedFile)
		return only
	})
}

// loadDefaultFile reads defaultFile, if there, unless another file is named: one
// that is named stands alone.
func loadDefaultFile(k *kong.Kong, ctx *kong.Context, at *kong.Path) error {
	if at.App == nil { // kong asks for each word of the command line
		return nil
	}
	for _, word := range ctx.Path {
		if word.Flag != nil && word.Flag.Name == "config" {
			return nil
		}
	}
	if onlyNamedFile(ctx) {
		return nil
	}
	resolver, err := k.LoadConfig(defaultFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", defaultFile, err)
	}
	ctx.AddResolver(resolver)
	return nil
}

// yamlSettings is a settings file: the long flag names of any command, with
// dashes or underscores, and their values.
type yamlSettings map[string]any

// loadYAML reads a settings file. An empty one is fine.
func loadYAML(r io.Reader) (kong.Resolver, error) {
	var raw map[string]any
	if err := yaml.NewDecoder(r).Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the settings file: %w", err)
	}
	s := yamlSettings{}
	for key, value := range raw {
		s[strings.ReplaceAll(key, "_", "-")] = value
	}
	return s, nil
}

// Validate refuses a key that is no flag of any command: a typo would
// otherwise be a setting that silently has no effect.
func (s yamlSettings) Validate(app *kong.Application) error {
	known := map[string]bool{}
	collectFlags(app.Node, known)
	for key := range s {
		if !known[key] {
			return fmt.Errorf("settings file: %q is no setting: the long names of flags are allowed, such as ingest-addr", key)
		}
	}
	return nil
}

func collectFlags(n *kong.Node, known map[string]bool) {
	for _, f := range n.Flags {
		known[f.Name] = true
	}
	for _, child := range n.Children {
		collectFlags(child, known)
	}
}

// Resolve gives the file's value for a flag that neither the command line nor
// the environment set.
func (s yamlSettings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	switch v := s[flag.Name].(type) {
	case nil:
		return nil, nil
	case string:
		return v, nil
	case bool:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = fmt.Sprint(part)
		}
		return strings.Join(parts, ","), nil
	default:
		return nil, fmt.Errorf("settings file: %s must be a text, a number, true or false, or a list of these", flag.Name)
	}
}
