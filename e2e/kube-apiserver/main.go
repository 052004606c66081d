// Command kube-apiserver is a Kubernetes API server for tests: the real one, and the
// etcd that stores its objects, in one process and one directory. The rest of a cluster
// is missing: no controller, scheduler or kubelet runs beside it, so nothing changes
// but what a test changes.
//
// The directory holds etcd's data, the ports, the keys and certificates and the
// administrator's kubeconfig. A process that is started again on it, even after a kill
// -9, is the same cluster at the same address.
//
// It is for one machine and one test: etcd and the control listener are on loopback,
// without authentication.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// readyWithin bounds the start: 3 s on an idle machine.
const readyWithin = 2 * time.Minute

// Ready is the line on stdout once the server is ready.
type Ready struct {
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	Control    string `json:"control"`
}

type config struct {
	dir               string
	ports             ports
	eventTTL          time.Duration
	minRequestTimeout time.Duration
	watchCache        bool
	stdin             bool
}

func main() {
	var c config
	flag.StringVar(&c.dir, "dir", "", "directory of the data, the keys and the ports; made if it is not there")
	flag.IntVar(&c.ports.Server, "secure-port", 0, "port of the API server; 0 is the one of the last start, or a free one")
	flag.IntVar(&c.ports.EtcdClients, "etcd-port", 0, "port of etcd for its clients; 0 as above")
	flag.IntVar(&c.ports.EtcdPeers, "etcd-peer-port", 0, "port of etcd for peers, unused; 0 as above")
	flag.IntVar(&c.ports.Control, "control-port", 0, "port of the control listener (POST /compact); 0 as above")
	flag.DurationVar(&c.eventTTL, "event-ttl", time.Hour, "how long events are kept")
	flag.DurationVar(&c.minRequestTimeout, "min-request-timeout", 30*time.Minute, "a watch is closed between this and twice this after it was opened; whole seconds")
	flag.BoolVar(&c.watchCache, "watch-cache", true, "answer watches of all but events from memory; without it a compaction is felt by every kind (see POST /compact)")
	flag.BoolVar(&c.stdin, "until-stdin-closes", false, "end when stdin is closed, as it is when the process that holds its other end is gone")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "kube-apiserver:", err)
		os.Exit(1)
	}
}

// run serves until SIGTERM, which the API server's command listens for.
func run(c config) error {
	if c.dir == "" || flag.NArg() > 0 {
		return errors.New("a directory has to be named, and nothing else: --dir=DIR")
	}
	if c.minRequestTimeout < time.Second {
		return fmt.Errorf("--min-request-timeout is %s: it has to be a second or more", c.minRequestTimeout)
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return fmt.Errorf("find %s: %w", c.dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	if err := c.ports.settle(filepath.Join(dir, "ports.json")); err != nil {
		return err
	}
	files := filesIn(dir)
	server := loopback("https", c.ports.Server)
	if err := files.make(server); err != nil {
		return err
	}
	etcd, err := startEtcd(filepath.Join(dir, "etcd"), c.ports)
	if err != nil {
		return err
	}
	defer etcd.Close()
	control, err := serveControl(c.ports.Control, etcd)
	if err != nil {
		return err
	}
	defer control.Close()

	cmd := app.NewAPIServerCommand()
	cmd.SetArgs(c.args(files))
	ctx, cancel := context.WithTimeout(cmd.Context(), readyWithin)
	defer cancel()
	if c.stdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
	}
	notReady := make(chan error, 1)
	go func() {
		err := files.waitReady(ctx, server)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(Ready{Server: server, Kubeconfig: files.kubeconfig, Control: loopback("http", c.ports.Control)})
		}
		if err != nil {
			notReady <- err
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
	}()
	err = cmd.Execute()
	select {
	case e := <-notReady:
		return errors.Join(e, err)
	default:
		return err
	}
}

// args are the settings of the API server.
func (c config) args(f files) []string {
	return []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.Server),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", // an endpoint may not be on loopback
		"--etcd-servers=" + loopback("http", c.ports.EtcdClients),
		"--etcd-compaction-interval=0s", // of 5 min: only POST /compact compacts
		"--storage-media-type=application/vnd.kubernetes.protobuf",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + f.server.cert, "--tls-private-key-file=" + f.server.key,
		"--client-ca-file=" + f.ca.cert,
		"--anonymous-auth=false", "--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + f.accounts, "--service-account-signing-key-file=" + f.accounts,
		"--kubelet-certificate-authority=" + f.ca.cert,
		"--kubelet-client-certificate=" + f.kubelet.cert, "--kubelet-client-key=" + f.kubelet.key,
		// No controller makes the account "default" that it asks for in the
		// namespace of every pod.
		"--disable-admission-plugins=ServiceAccount",
		"--event-ttl=" + c.eventTTL.String(),
		fmt.Sprintf("--min-request-timeout=%d", int(c.minRequestTimeout.Seconds())),
		fmt.Sprintf("--watch-cache=%t", c.watchCache),
	}
}
