package bus

import (
	"fmt"
	"strings"
	"time"
)

// A server keeps dashboards in an account of their own. A request names the subject of its
// answer, which no permission restricts: in the account of the streams a dashboard could
// have what it reads written into any stream, or delete one by an empty answer, which is a
// command to some of JetStream's interface. In its own account such an answer reaches
// nothing but what other dashboards see.
const (
	// AccountServices has the streams and the roles that work with them.
	AccountServices = "TOCSIN"
	// AccountDashboards has the dashboards, which import what the other account exports.
	AccountDashboards = "DASHBOARDS"
)

// ReplyThreshold is how long a server remembers a dashboard's request for its answers. The
// default of 2 min would cost memory when there are very many requests.
const ReplyThreshold = 5 * time.Second

// MaxDashboards is how many dashboards may be connected to all servers together: half of the
// connections that one server accepts. Pages have the dashboard's key, and must not be able
// to keep services out.
const MaxDashboards = 2048

// account returns the account of a role.
func (r Role) account() string {
	if r == RoleDashboard {
		return AccountDashboards
	}
	return AccountServices
}

// ServerAccounts returns the part of a nats-server's configuration with both accounts and the
// roles in them with their permissions. key returns the text for a role's public key.
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
			fmt.Fprintf(&b, "    limits { max_connections: %d }\n", MaxDashboards)
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
			for _, s := range dashboardRequests() { // one request may have many answers
				fmt.Fprintf(&b, "      { service: %q, response_type: stream, threshold: %q, accounts: [%s] }\n", s, ReplyThreshold, AccountDashboards)
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
