package config

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
)

// definitionKey is that of this process. The digests are stored with sessions, and an entry may hold a
// secret that is short enough to be guessed from a digest without a key.
var definitionKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return key
})

// define digests the entries that a plan names.
func (c *Config) define() {
	c.definitions = make(map[string]string, len(c.Providers)+len(c.Servers))
	for name, p := range c.Providers {
		c.definitions["llm_providers."+name] = definition(name, p, c.keys[name])
	}
	for name, s := range c.Servers {
		c.definitions["mcp_servers."+name] = definition(name, s)
	}
}

// ProviderDefinition identifies an entry of llm_providers as it stands in this file: the same name
// with other settings has another definition. It has no meaning to another process.
func (c *Config) ProviderDefinition(name string) string { return c.definitions["llm_providers."+name] }

// ServerDefinition is [Config.ProviderDefinition] of an entry of mcp_servers.
func (c *Config) ServerDefinition(name string) string { return c.definitions["mcp_servers."+name] }

func definition(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		panic("config: an entry can't be encoded: " + err.Error()) // texts, numbers, lists and maps
	}
	mac := hmac.New(sha256.New, definitionKey())
	mac.Write(data)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
