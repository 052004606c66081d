package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// newLogger logs to w, which is stderr: stdout is for the output of a command. On a
// terminal, lines are short and coloured.
func newLogger(s Settings, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		level = slog.LevelInfo // unreachable: kong has checked the value
	}
	var handler slog.Handler
	switch {
	case s.LogFormat == "json":
		handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	case isTerminal(w):
		handler = tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly})
	default:
		handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	}
	return slog.New(newRepeatHandler(handler))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// ignoreEmptyEnv makes environment variables that are empty, or white space, count as
// unset: compose files and shells set them so when a value is missing. For a flag with the
// tag "empty", empty is a value. Unset variables stay: --help names them.
func ignoreEmptyEnv(n *kong.Node) {
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
		ignoreEmptyEnv(child)
	}
}

// fileName is the name of a settings file, in the user's own directory.
const fileName = "tocsin.yaml"

// writableByOthers is the set of permissions that the default settings file must not have.
const writableByOthers fs.FileMode = 0o022

// UserFile returns the path of the default settings file:
// $XDG_CONFIG_HOME/tocsin/tocsin.yaml, else ~/.config/tocsin/tocsin.yaml. It is empty for
// a user without a home directory.
func UserFile() string {
	base := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "tocsin", fileName)
}

// Silent is a command that logs nothing about settings files: its caller shows stderr to a
// person, or acts on it, each time it runs.
type Silent interface{ Silent() }

// isSilent reports whether the chosen command implements Silent.
func isSilent(ctx *kong.Context) bool {
	return slices.ContainsFunc(ctx.Path, func(word *kong.Path) bool {
		node := word.Node()
		if node == nil || !node.Target.CanAddr() {
			return false
		}
		_, is := node.Target.Addr().Interface().(Silent)
		return is
	})
}

// settingsFiles finds the settings file of a command. A file in the working directory is
// never read by default: the author of a repository must not choose the bus to connect to,
// the addresses to listen on, or where a token is sent.
type settingsFiles struct {
	// names are those that a [Partial] command line adds to its own flags, or none.
	names []string
	// read is the default file if it was read, or empty.
	read string
	// warning is about a file in the working directory that was not read, or empty.
	warning string
}

// load reads the default file, if it exists and no other file is named: a named file
// replaces it.
func (f *settingsFiles) load(ctx *kong.Context, at *kong.Path) error {
	if at.App == nil { // kong asks for each word of the command line
		return nil
	}
	for _, word := range ctx.Path {
		if word.Flag != nil && word.Flag.Name == "config" {
			return nil
		}
	}
	path := UserFile()
	resolver, err := f.loadUserFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		f.read = path
		ctx.AddResolver(resolver)
	}
	f.warning = unreadWarning(path)
	return nil
}

// loadUserFile reads the default settings file, which only this user and root may be able to
// write.
func (f *settingsFiles) loadUserFile(path string) (kong.Resolver, error) {
	if path == "" {
		return nil, fs.ErrNotExist
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the settings file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("check the settings file: %w", err)
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	return f.loadYAML(file)
}

// checkOwner returns an error if a user other than this one and root can write the file.
func checkOwner(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&writableByOthers != 0 {
		return fmt.Errorf("the settings file %s is not read: others can write it (mode %04o): run chmod go-w %s", path, mode, path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("the settings file %s is not read: it belongs to another user (id %d): make it yours", path, stat.Uid)
	}
	return nil
}

// unreadWarning returns the warning about a settings file in the working directory. It is empty
// if there is none, or it is the default one.
func unreadWarning(own string) string {
	here, err := os.Stat(fileName)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(own); err == nil && os.SameFile(here, info) {
		return ""
	}
	if own == "" {
		own = filepath.Join("$XDG_CONFIG_HOME", "tocsin", fileName)
	}
	return fmt.Sprintf("./%s is not read; pass --config %s or move it to %s", fileName, fileName, own)
}

// yamlSettings is a settings file: long names of flags of any command, with dashes, and
// their values.
type yamlSettings struct {
	values map[string]any
	names  []string // see settingsFiles
}

// loadYAML reads a settings file. It may be empty.
func (f *settingsFiles) loadYAML(r io.Reader) (kong.Resolver, error) {
	var raw map[string]any
	if err := yaml.NewDecoder(r).Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		what := "the settings file"
		if file, is := r.(*os.File); is {
			what += " " + file.Name()
		}
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	values := make(map[string]any, len(raw))
	for key, value := range raw {
		values[strings.ReplaceAll(key, "_", "-")] = value
	}
	return yamlSettings{values, f.names}, nil
}

// Validate refuses a key that is not a flag of any command: a typo would otherwise have no
// effect.
func (s yamlSettings) Validate(app *kong.Application) error {
	known := map[string]bool{}
	collectFlags(app.Node, known)
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !known[key] && !slices.Contains(s.names, key) {
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

// Resolve returns the value for a flag that neither the command line nor the environment
// set.
func (s yamlSettings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, set := os.LookupEnv(env); set {
			return nil, nil
		}
	}
	switch v := s.values[flag.Name].(type) {
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
