package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// etcdWithin bounds the start of etcd, with the replay of its log after a kill.
const etcdWithin = time.Minute

func startEtcd(dir string, p ports) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = dir, "warn"
	clients := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", p.EtcdClients)}
	peers := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", p.EtcdPeers)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	// Tests kill the process, not the machine: what was written to the page cache
	// survives a kill.
	c.UnsafeNoFsync = true
	c.WarningUnaryRequestDuration = time.Second // 0, the default, warns of every request
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-time.After(etcdWithin):
		etcd.Close()
		return nil, fmt.Errorf("etcd did not start within %s", etcdWithin)
	}
}

// serveControl answers POST /compact: etcd deletes the history before its current
// revision, which is the answer.
//
// A watch of events from an older revision gets 410 from then on, because the API
// server keeps no watch cache for events. For other kinds the cache has the changes
// since the server's start: they get 410 after a restart, or with --watch-cache=false.
func serveControl(port int, etcd *embed.Etcd) (*http.Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for control: %w", err)
	}
	client := v3client.New(etcd.Server)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /compact", func(w http.ResponseWriter, r *http.Request) {
		now, err := client.Get(r.Context(), "revision") // no such key: the answer's header has the revision
		if err == nil {
			_, err = client.Compact(r.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, now.Header.Revision)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	return s, nil
}
