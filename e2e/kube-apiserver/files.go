package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// files are the keys, the certificates and the kubeconfig in the directory. A test that
// needs a client of its own signs its certificate with the authority's key.
type files struct {
	ca, server, kubelet, admin pair
	accounts                   string // signs the tokens of service accounts
	kubeconfig                 string
}

type pair struct{ cert, key string }

func filesIn(dir string) files {
	at := func(name string) pair {
		return pair{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
	}
	return files{
		ca: at("ca"), server: at("server"), kubelet: at("kubelet-client"), admin: at("admin"),
		accounts: filepath.Join(dir, "accounts.key"), kubeconfig: filepath.Join(dir, "kubeconfig"),
	}
}

// validFor is longer than any test.
const validFor = 30 * 24 * time.Hour

// make writes the missing files. The kubeconfig is written last: if it exists, all do.
func (f files) make(server string) error {
	_, err := os.Stat(f.kubeconfig)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the kubeconfig: %w", err)
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := f.ca.write(ca, nil, nil)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		files pair
		cert  x509.Certificate
	}{
		{f.server, x509.Certificate{
			Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "kubernetes.default.svc"},
		}},
		{f.kubelet, x509.Certificate{
			Subject: pkix.Name{CommonName: "kube-apiserver-kubelet-client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
		{f.admin, x509.Certificate{
			Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
	} {
		if _, err := c.files.write(&c.cert, ca, caKey); err != nil {
			return err
		}
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	if err := writeKey(f.accounts, accounts); err != nil {
		return err
	}
	return f.writeKubeconfig(server)
}

// write makes a key and its certificate, signed by the issuer or, without one, by
// itself.
func (p pair) write(c, issuer *x509.Certificate, issuerKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", c.Subject.CommonName, err)
	}
	if issuer == nil {
		issuer, issuerKey = c, key
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, fmt.Errorf("make the serial number of %s: %w", c.Subject.CommonName, err)
	}
	now := time.Now()
	c.NotBefore, c.NotAfter = now.Add(-time.Minute), now.Add(validFor)
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, key.Public(), issuerKey)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", c.Subject.CommonName, err)
	}
	if err := os.WriteFile(p.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("write the certificate of %s: %w", c.Subject.CommonName, err)
	}
	return key, writeKey(p.key, key)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}

func (f files) writeKubeconfig(server string) error {
	var parts [3][]byte
	for i, file := range []string{f.ca.cert, f.admin.cert, f.admin.key} {
		var err error
		if parts[i], err = os.ReadFile(file); err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
	}
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthorityData: parts[0]}
	c.AuthInfos["admin"] = &api.AuthInfo{ClientCertificateData: parts[1], ClientKeyData: parts[2]}
	c.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "admin"}
	c.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*c, f.kubeconfig); err != nil { // it writes 0600
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}

// waitReady polls /readyz, as the administrator, until it is ok.
func (f files) waitReady(ctx context.Context, server string) error {
	cert, err := tls.LoadX509KeyPair(f.admin.cert, f.admin.key)
	if err != nil {
		return fmt.Errorf("read the administrator's certificate: %w", err)
	}
	ca, err := os.ReadFile(f.ca.cert)
	if err != nil {
		return fmt.Errorf("read the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("it was not asked yet")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready (%w): %w", ctx.Err(), last)
		case <-tick.C:
		}
		if last = ask(ctx, &client, server+"/readyz"); last == nil {
			return nil
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return nil
}
