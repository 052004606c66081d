package config

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// An entry of the file is digested twice: its [Entry] stays in the process, and with a key it becomes
// the definition that is stored with sessions. An entry may hold a secret that is short enough to be
// guessed from a digest without a key.

// DefinitionKeySize is the length of a key of definitions, in bytes.
const DefinitionKeySize = sha256.Size

// NewDefinitionKey returns a key for [Config.WithDefinitionKey].
func NewDefinitionKey() []byte {
	key := make([]byte, DefinitionKeySize)
	_, _ = rand.Read(key) // it never fails
	return key
}

// Entry identifies an entry of the file as it stands there: the same name with other settings is
// another one. It is not for display or storage. The zero value stands for what is not in the file.
type Entry [sha256.Size]byte

// Definition returns the entry's identity for those who know the key, and nothing for no entry.
func (e Entry) Definition(key []byte) string {
	if e == (Entry{}) {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(e[:])
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// define digests the entries that a plan names, and makes a key.
func (c *Config) define() {
	c.definitionKey = NewDefinitionKey()
	c.entries = make(map[string]Entry, len(c.Providers)+len(c.Servers))
	for name, p := range c.Providers {
		c.entries["llm_providers."+name] = entryOf(name, p, c.keys[name])
	}
	for name, s := range c.Servers {
		c.entries["mcp_servers."+name] = entryOf(name, s)
	}
}

// WithDefinitionKey returns the configuration with another key: processes with the same key and the
// same entries have the same definitions.
func (c *Config) WithDefinitionKey(key []byte) *Config {
	keyed := *c
	keyed.definitionKey = key
	return &keyed
}

// DefinitionKey returns the key of the definitions: that of [Config.WithDefinitionKey], else one that
// no other configuration has.
func (c *Config) DefinitionKey() []byte { return c.definitionKey }

// ProviderEntry identifies an entry of llm_providers.
func (c *Config) ProviderEntry(name string) Entry { return c.entries["llm_providers."+name] }

// ServerEntry identifies an entry of mcp_servers.
func (c *Config) ServerEntry(name string) Entry { return c.entries["mcp_servers."+name] }

func entryOf(parts ...any) Entry {
	data, err := json.Marshal(parts)
	if err != nil {
		panic("config: an entry can't be encoded: " + err.Error()) // texts, numbers, lists and maps
	}
	return sha256.Sum256(data)
}
