package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// ports are kept in the directory, so that a restart uses them again.
type ports struct {
	Server      int `json:"server"`
	EtcdClients int `json:"etcd_clients"`
	EtcdPeers   int `json:"etcd_peers"`
	Control     int `json:"control"`
}

// settle fills in what is 0, from the file or with free ports, and writes the file.
func (p *ports) settle(file string) error {
	var last ports
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the ports: %w", err)
	default:
		if err := json.Unmarshal(data, &last); err != nil {
			return fmt.Errorf("read the ports in %s: %w", file, err)
		}
	}
	for _, port := range []struct{ now, last *int }{
		{&p.Server, &last.Server}, {&p.EtcdClients, &last.EtcdClients}, {&p.EtcdPeers, &last.EtcdPeers}, {&p.Control, &last.Control},
	} {
		if *port.now == 0 {
			*port.now = *port.last
		}
		if *port.now == 0 {
			if *port.now, err = freePort(); err != nil {
				return err
			}
		}
	}
	if data, err = json.Marshal(p); err != nil {
		return fmt.Errorf("write the ports: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write the ports: %w", err)
	}
	return nil
}

// Free ports are searched below 32768, where Linux begins to assign them to
// connections: while a killed server is down, no process gets its port by chance.
const firstPort, portCount, tries = 20000, 12000, 100

func freePort() (int, error) {
	var errs error
	for range tries {
		port := firstPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		errs = err
	}
	return 0, fmt.Errorf("find a free port, %d tries: %w", tries, errs)
}

func loopback(scheme string, port int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port)
}
