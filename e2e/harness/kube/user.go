package kube

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
	"math/big"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// validFor is longer than any test.
	validFor = 24 * time.Hour
	// tokenSeconds is how long a token of a service account is valid.
	tokenSeconds = 3600
)

// User creates a user with the rights of the cluster roles and roles in the manifests
// (YAML files), and returns the path of a kubeconfig with a certificate for it. It
// ignores other objects in the files and makes bindings of its own.
func (s *Server) User(ctx context.Context, name string, manifests ...string) (string, error) {
	objects, err := readManifests(manifests)
	if err != nil {
		return "", err
	}
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	for _, object := range objects {
		var binding runtime.Object
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			binding = &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name + ":" + o.Name}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: o.Name},
			}
		case *rbacv1.Role:
			binding = &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name + ":" + o.Name, Namespace: o.Namespace}, Subjects: user,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: o.Name},
			}
		default:
			continue
		}
		if err := errors.Join(s.apply(ctx, object, metav1.NamespaceDefault), s.apply(ctx, binding, metav1.NamespaceDefault)); err != nil {
			return "", err
		}
	}
	cert, err := s.certificate(x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return "", fmt.Errorf("make user %s: %w", name, err)
	}
	return s.writeKubeconfig(name, &api.AuthInfo{
		ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	})
}

// ServiceAccount creates the namespaces, service accounts, roles and bindings of the
// manifests (YAML files), and returns the path of a kubeconfig with a token of the
// named account. Objects without a namespace get the one that is named here. Other
// kinds are ignored.
func (s *Server) ServiceAccount(ctx context.Context, namespace, name string, manifests ...string) (string, error) {
	objects, err := readManifests(manifests)
	if err != nil {
		return "", err
	}
	objects = append([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}, objects...)
	for _, object := range objects {
		if err := s.apply(ctx, object, namespace); err != nil {
			return "", err
		}
	}
	seconds := int64(tokenSeconds)
	token, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of service account %s/%s: %w", namespace, name, err)
	}
	return s.writeKubeconfig(namespace+"."+name, &api.AuthInfo{Token: token.Status.Token})
}

// readManifests reads the objects of the kinds that client-go knows.
func readManifests(files []string) ([]runtime.Object, error) {
	var objects []runtime.Object
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		defer f.Close()
		decoder := yaml.NewYAMLOrJSONDecoder(f, 4<<10)
		for {
			var raw runtime.RawExtension
			if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read manifest %s: %w", file, err)
			}
			if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
				continue
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
			if runtime.IsNotRegisteredError(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read manifest %s: %w", file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// apply creates an object, or replaces the rules of an existing one. It ignores kinds
// other than those below.
func (s *Server) apply(ctx context.Context, object runtime.Object, namespace string) error {
	in := func(named string) string {
		if named == "" {
			return namespace
		}
		return named
	}
	rbac, create, update := s.client.RbacV1(), metav1.CreateOptions{}, metav1.UpdateOptions{}
	var err error
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = s.client.CoreV1().Namespaces().Create(ctx, o, create)
	case *corev1.ServiceAccount:
		_, err = s.client.CoreV1().ServiceAccounts(in(o.Namespace)).Create(ctx, o, create)
	case *rbacv1.ClusterRole:
		if _, err = rbac.ClusterRoles().Create(ctx, o, create); apierrors.IsAlreadyExists(err) {
			_, err = rbac.ClusterRoles().Update(ctx, o, update)
		}
	case *rbacv1.Role:
		if _, err = rbac.Roles(in(o.Namespace)).Create(ctx, o, create); apierrors.IsAlreadyExists(err) {
			_, err = rbac.Roles(in(o.Namespace)).Update(ctx, o, update)
		}
	case *rbacv1.ClusterRoleBinding:
		subjectsIn(o.Subjects, namespace)
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, create)
	case *rbacv1.RoleBinding:
		subjectsIn(o.Subjects, in(o.Namespace))
		_, err = rbac.RoleBindings(in(o.Namespace)).Create(ctx, o, create)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("apply a %T: %w", object, err)
	}
	return nil
}

func subjectsIn(subjects []rbacv1.Subject, namespace string) {
	for i, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == "" {
			subjects[i].Namespace = namespace
		}
	}
}

// writeKubeconfig writes a kubeconfig whose only context has the name of the
// administrator's.
func (s *Server) writeKubeconfig(name string, auth *api.AuthInfo) (string, error) {
	admin, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	c := api.NewConfig()
	context := admin.Contexts[admin.CurrentContext]
	c.Clusters[context.Cluster] = admin.Clusters[context.Cluster]
	c.AuthInfos[name] = auth
	c.Contexts[admin.CurrentContext] = &api.Context{Cluster: context.Cluster, AuthInfo: name}
	c.CurrentContext = admin.CurrentContext
	file := filepath.Join(s.dir, "kubeconfig-of-"+name)
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return file, nil
}

// certificate makes a key and its certificate, signed by the cluster's authority.
func (s *Server) certificate(c x509.Certificate) (tls.Certificate, error) {
	ca, err := tls.LoadX509KeyPair(filepath.Join(s.dir, "ca.crt"), filepath.Join(s.dir, "ca.key"))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the authority's key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return tls.Certificate{}, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	c.NotBefore, c.NotAfter = now.Add(-time.Minute), now.Add(validFor)
	der, err := x509.CreateCertificate(rand.Reader, &c, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign the certificate of %s: %w", c.Subject.CommonName, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
