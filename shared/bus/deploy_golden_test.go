package bus_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

var update = flag.Bool("update", false, "overwrite the files that are generated from the table of roles")

// deployed is the directory with the configuration of external servers.
const deployed = "../../deploy/nats"

func externalRoles() []bus.Role { return append(bus.Roles(), bus.RoleProvisioner) }

// TestRolesOfAServer checks that the configuration of servers gives each role the permissions
// of the table, also where the roles are users of an operator.
func TestRolesOfAServer(t *testing.T) {
	for file, want := range map[string]string{"roles.conf": rolesConf(), "nsc.sh": nscScript()} {
		file = filepath.Join(deployed, file)
		if *update {
			mode := os.FileMode(0o644)
			if strings.HasSuffix(file, ".sh") {
				mode = 0o755
			}
			if err := os.WriteFile(file, []byte(want), mode); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs from the table of roles; run the test with -update (-want +got):\n%s", file, cmp.Diff(want, string(got)))
		}
	}
}

const golden = `# Written by a test from the table in shared/bus/roles.go; to update it:
#   go test ./shared/bus -run TestRolesOfAServer -update
`

func rolesConf() string {
	return "# The permissions of each role on the bus.\n" + golden + "\n" + bus.ServerAccounts(func(r bus.Role) string { return "$" + r.KeyVariable() })
}

func nscScript() string {
	var b strings.Builder
	b.WriteString(`#!/bin/sh
# Creates the roles as users of an operator's account, with credentials files, by
# nsc (github.com/nats-io/nsc). See README.md.
` + golden + `#
# usage: nsc.sh DIR    the operator must exist
set -eu
dir=${1:?a directory for the credentials files}
umask 077
mkdir -p "$dir"

nsc add account --name TOCSIN
nsc edit account --name TOCSIN --js-disk-storage 4G --js-mem-storage 256M --js-streams -1 --js-consumer -1
nsc add account --name DASHBOARDS
`)
	fmt.Fprintf(&b, "nsc edit account --name DASHBOARDS --conns %d\n", bus.MaxDashboards)
	b.WriteString(`services=$(nsc describe account --name TOCSIN --field sub | tr -d '"')
`)
	dashboard := bus.RoleDashboard.Permissions()
	for i, subject := range dashboard.Subscribe {
		if strings.HasPrefix(subject, "_INBOX.") {
			continue
		}
		fmt.Fprintf(&b, "nsc add export --account TOCSIN --name live-%d --subject '%s'\n", i, subject)
		fmt.Fprintf(&b, "nsc add import --account DASHBOARDS --name live-%d --src-account \"$services\" --remote-subject '%s' --local-subject '%s'\n", i, subject, subject)
	}
	for i, subject := range dashboard.Publish {
		fmt.Fprintf(&b, "nsc add export --account TOCSIN --name look-%d --service --response-type Stream --response-threshold %s --subject '%s'\n", i, bus.ReplyThreshold, subject)
		fmt.Fprintf(&b, "nsc add import --account DASHBOARDS --name look-%d --service --src-account \"$services\" --remote-subject '%s' --local-subject '%s'\n", i, subject, subject)
	}
	quoted := func(subjects []string) string {
		return "'" + strings.Join(subjects, ",") + "'"
	}
	for _, role := range externalRoles() {
		p := role.Permissions()
		account := bus.AccountServices
		if role == bus.RoleDashboard {
			account = bus.AccountDashboards
		}
		fmt.Fprintf(&b, "\nnsc add user --account %s --name %s", account, role)
		if p.Replies > 0 {
			fmt.Fprintf(&b, " \\\n  --allow-pub-response=%d --response-ttl %s", p.Replies, p.ReplyWithin)
		}
		fmt.Fprintf(&b, " \\\n  --allow-sub %s \\\n  --allow-pub %s\n", quoted(p.Subscribe), quoted(p.Publish))
		fmt.Fprintf(&b, "nsc generate creds --account %s --name %s >\"$dir/%s.creds\"\n", account, role, role)
	}
	return b.String()
}
