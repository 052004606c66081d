package bus

import (
	"fmt"
	"strings"
	"time"
)

// A server keeps dashboards in an account of their own. Who may ask for anything
// names where the answer goes, which no permission restricts: within the account of
// the streams a dashboard could have what it reads written into any of them, or have
// an empty answer, which is a command to some of JetStream's interface, take a
// stream away. In its own account there is nothing that such an answer could reach,
// but what other dashboards see.
const (
	// AccountServices holds the streams and all roles that work with them.
	AccountServices = "TOCSIN"
	// AccountDashboards holds the dashboards, which get what the other exports.
	AccountDashboards = "DASHBOARDS"
)

// LookWithin is how long a server remembers a dashboard's question for its answers.
// By default it would be 2 min, which is memory for whoever asks very much.
const LookWithin = 5 * time.Second

// LookConnections is how many dashboards may be connected, to all servers together: half
// of what one server takes at all, so that who has their key, and that are pages too,
// can't keep the services out.
const LookConnections = 2048

// account is where a role belongs.
func (r Role) account() string {
	if r == RoleDashboard {
		return AccountDashboards
	}
	return AccountServices
}

// ServerAccounts is the part of a nats-server's configuration that says who may do
// what: both accounts, and in them the roles with their permissions. Key gives what
// stands for a role's public key.
func ServerAccounts(key func(Role) string) string {
	var b strings.Builder
	b.WriteString(`authorization {
  # How long a client may take to prove its key, in seconds.
  timeout: 5
}

accounts {
`)
	for _, account := range []string{AccountServices, AccountDashboards} {
		fmt.Fprintf(&b, "  %s {\n", account)
		if account == AccountServices {
			b.WriteString("    jetstream: enabled\n")
		} else {
			fmt.Fprintf(&b, "    limits { max_connections: %d }\n", LookConnections)
		}
		b.WriteString("    users: [\n")
		for _, role := range append(Roles(), RoleProvisioner) {
			if role.account() == account {
				writeUser(&b, role, key(role))
			}
		}
		b.WriteString("    ]\n")
		if account == AccountServices {
			b.WriteString("    exports: [\n")
			for _, s := range liveSubjects() {
				fmt.Fprintf(&b, "      { stream: %q, accounts: [%s] }\n", s, AccountDashboards)
			}
			for _, s := range dashboardRequests() { // one question may have many answers
				fmt.Fprintf(&b, "      { service: %q, response_type: stream, threshold: %q, accounts: [%s] }\n", s, LookWithin, AccountDashboards)
			}
		} else {
			b.WriteString("    imports: [\n")
			for _, s := range liveSubjects() {
				fmt.Fprintf(&b, "      { stream: { account: %s, subject: %q } }\n", AccountServices, s)
			}
			for _, s := range dashboardRequests() {
				fmt.Fprintf(&b, "      { service: { account: %s, subject: %q } }\n", AccountServices, s)
			}
		}
		b.WriteString("    ]\n  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func writeUser(b *strings.Builder, role Role, key string) {
	p := role.Permissions()
	fmt.Fprintf(b, "      { # %s\n        nkey: %s\n        permissions {\n", role, key)
	for _, list := range []struct {
		name     string
		subjects []string
	}{{"publish", p.Publish}, {"subscribe", p.Subscribe}} {
		fmt.Fprintf(b, "          %s: [\n", list.name)
		for _, s := range list.subjects {
			fmt.Fprintf(b, "            %q\n", s)
		}
		b.WriteString("          ]\n")
	}
	if p.Replies > 0 {
		fmt.Fprintf(b, "          allow_responses { max: %d, expires: %q }\n", p.Replies, p.ReplyWithin)
	}
	b.WriteString("        }\n      }\n")
}
