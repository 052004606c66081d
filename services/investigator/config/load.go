package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unicode/utf8"
)

// maxFile bounds a configuration file.
const maxFile = 1 << 20

// writableByOthers are the permissions that the file must not have.
const writableByOthers = 0o022

// Load reads and checks the file. The error is [Errors] where the file could be read.
func Load(path string, lookupEnv func(string) (string, bool)) (*Config, Warnings, error) {
	data, info, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	c, warnings, err := Parse(data, path, lookupEnv)
	if c != nil {
		c.file = info
	}
	return c, warnings, err
}

// read reads a file that only its owner can write. It checks the opened file, so that
// the file can't be replaced in between.
func read(path string) ([]byte, os.FileInfo, error) {
	// Opening a named pipe waits for its writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, notRegular(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open the investigator's configuration: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("check the investigator's configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular(path)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&writableByOthers != 0 {
		return nil, nil, fmt.Errorf("%s is not read: others can write it (mode %04o): run chmod go-w %s", path, mode, path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the investigator's configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, nil, fmt.Errorf("%s is not read: it is over 1 MiB", path)
	}
	return data, info, nil
}

func notRegular(path string) error {
	return fmt.Errorf("%s is no regular file: name a YAML file", path)
}

// Parse reads and checks data. The error is [Errors]: everything that is wrong.
func Parse(data []byte, name string, lookupEnv func(string) (string, bool)) (*Config, Warnings, error) {
	c := newConfig(name)
	d := newDecoder(name, lookupEnv, c)
	d.read(data, c)
	return d.finish(c)
}

// LoadForeign reads the two files of the system that this one replaces, see [ForeignFiles].
// Its warnings name what has no effect here.
func LoadForeign(first, providers string, lookupEnv func(string) (string, bool)) (*Config, Warnings, error) {
	var c *Config
	var d *decoder
	var all []error
	for _, path := range []string{providers, first} {
		data, _, err := read(path)
		if err != nil {
			all = append(all, err)
			continue
		}
		if c == nil {
			c = newConfig(path)
			d = newDecoder(path, lookupEnv, c)
			d.providersFile = providers
		}
		c.name, d.name = path, path
		d.read(data, c)
	}
	if len(all) > 0 {
		return nil, nil, errors.Join(all...)
	}
	return d.finish(c)
}

func newConfig(name string) *Config {
	return &Config{name: name, lines: map[string]int{}, raw: map[string]string{}, keys: map[string]string{}, expanded: map[string][]expansion{}}
}

func newDecoder(name string, lookup func(string) (string, bool), c *Config) *decoder {
	return &decoder{name: name, lookup: lookup, lines: c.lines, raw: c.raw, expanded: c.expanded}
}

func (d *decoder) read(data []byte, c *Config) {
	switch {
	case len(data) > maxFile:
		d.unreadable = true
		d.fail(0, "", "is over 1 MiB")
	case !utf8.Valid(data):
		d.unreadable = true
		d.fail(0, "", "is not UTF-8")
	default:
		d.document(data, c)
	}
}

// finish checks what was read. A file that is no YAML has no values to check.
func (d *decoder) finish(c *Config) (*Config, Warnings, error) {
	if !d.unreadable {
		c.addBuiltin()
		c.deriveDefaults()
		(&checker{decoder: d, c: c}).all()
	}
	warnings := Warnings(sorted(d.warnings))
	if len(d.errors) > 0 {
		return nil, warnings, Errors(sorted(d.errors))
	}
	c.define()
	return c, warnings, nil
}
