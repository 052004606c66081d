package manifests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kubernetesVersion is the newest version whose schemas kubectl-validate has.
const kubernetesVersion = "1.30"

// kubectlValidate is the module that checks schemas.
const kubectlValidate = "sigs.k8s.io/kubectl-validate@v0.0.4"

// watching has the line of each overlay that enables kubewatch.
var watching = map[string]string{
	"single":  "components: [../../kubewatch/sidecar]",
	"cluster": "components: [../../kubewatch]",
}

// watchingOne has the line that makes kubewatch watch one namespace only.
var watchingOne = map[string]string{
	"single":  "components: [../../kubewatch/sidecar, ../../kubewatch/namespaced]",
	"cluster": "components: [../../kubewatch, ../../kubewatch/namespaced]",
}

// investigating is the line of the overlay cluster that enables the investigator.
const investigating = "components: [../../investigator]"

const (
	// oneNamespace names that namespace.
	oneNamespace = "configMapGenerator: [{ name: kubewatch, literals: [namespace=shop] }]"
	// apiServerAccess lets kubewatch connect to the API server.
	apiServerAccess = "patches: [{ path: api-server.yaml }]"
)

// endpointSlices are the addresses of an API server, as kubectl gets them.
const endpointSlices = `{"kind":"List","items":[
	{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}],"ports":[{"name":"https","port":6443,"protocol":"TCP"}]},
	{"addressType":"IPv6","endpoints":[{"addresses":["fd00::1"]}],"ports":[{"name":"https","port":443,"protocol":"TCP"}]}]}`

// apiServer returns the patch that kubewatch/api-server.tmpl makes. kubectl executes the
// template in the same way, with the JSON of the objects.
func apiServer(t *testing.T) string {
	t.Helper()
	var endpoints any
	if err := json.Unmarshal([]byte(endpointSlices), &endpoints); err != nil {
		t.Fatal(err)
	}
	of, err := template.New("api-server").Parse(string(read(t, deploy(t, "kubernetes", "kubewatch", "api-server.tmpl"))))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := of.Execute(&text, endpoints); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// overlay builds an overlay of a copy of deploy/ with the secrets that a person makes,
// and returns each object as YAML. A name with +kubewatch has that enabled, with
// +namespaced for one namespace only, and with +closed without access to the API
// server. One with +investigator has the investigator enabled.
func overlay(t *testing.T, name string) [][]byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deploy(t))); err != nil {
		t.Fatal(err)
	}
	name, watches, _ := strings.Cut(name, "+")
	at := filepath.Join(dir, "kubernetes", "overlays", name)
	lines := map[string][]string{
		"kubewatch": {watching[name], apiServerAccess}, "namespaced": {watchingOne[name], oneNamespace, apiServerAccess}, "closed": {watching[name]}, "investigator": {investigating},
	}[watches]
	file := filepath.Join(at, "kustomization.yaml")
	if err := os.WriteFile(file, slices.Concat(read(t, file), []byte(strings.Join(lines, "\n")+"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(at, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token.env", "TOCSIN_TOKEN=secret\n")
	write("api-server.yaml", apiServer(t))
	public := ""
	for _, role := range roles {
		write("keys/"+role+".nk", "SU"+role+"\n")
		public += "TOCSIN_NKEY_" + strings.ToUpper(role) + "=U" + role + "\n"
	}
	write("keys/keys.env", public)
	write("keys/routes.env", "TOCSIN_ROUTES_PASSWORD=Rpassword\n")
	write("../../investigator/investigator.env", "ANTHROPIC_API_KEY=secret\n")
	// The restrictions on loaded files are those of kubectl apply -k.
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), at)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// installation has the objects of an overlay.
type installation struct {
	pods      []pod
	budgets   []policyv1.PodDisruptionBudget
	policies  []networkingv1.NetworkPolicy
	services  []corev1.Service
	accounts  []corev1.ServiceAccount
	rights    []rbacv1.ClusterRole
	bindings  []rbacv1.ClusterRoleBinding
	namespace corev1.Namespace
	// configs has the names of ConfigMaps and Secrets, with their keys.
	configs map[string][]string
	kinds   []string
}

// pod is an object that makes pods.
type pod struct {
	name     string
	kind     string
	replicas int32
	spec     corev1.PodTemplateSpec
	selector map[string]string
}

func strict[T any](t *testing.T, text []byte) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatalf("decode a manifest: %v\n%s", err, text)
	}
	return object
}

// read parses an overlay strictly: an unknown field is an error.
func (i *installation) read(t *testing.T, text []byte) {
	t.Helper()
	var is metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(text, &is); err != nil {
		t.Fatal(err)
	}
	i.kinds = append(i.kinds, is.Kind+"/"+is.Name)
	if wide := is.Kind == "Namespace" || strings.HasPrefix(is.Kind, "ClusterRole"); !wide && is.Namespace != "tocsin" {
		t.Errorf("%s/%s is in the namespace %q, want tocsin", is.Kind, is.Name, is.Namespace)
	}
	if is.Kind != "ConfigMap" && is.Labels["app.kubernetes.io/part-of"] != "tocsin" {
		t.Errorf("%s/%s has labels %v, want app.kubernetes.io/part-of: tocsin", is.Kind, is.Name, is.Labels)
	}
	switch is.GroupVersionKind() {
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		d := strict[appsv1.Deployment](t, text)
		i.pods = append(i.pods, pod{d.Name, is.Kind, *d.Spec.Replicas, d.Spec.Template, d.Spec.Selector.MatchLabels})
		if u := d.Spec.Strategy.RollingUpdate; u == nil || u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.IntValue() != 1 {
			t.Errorf("%s: rolling update %+v, want maxUnavailable 0 and maxSurge 1", d.Name, u)
		}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		s := strict[appsv1.StatefulSet](t, text)
		i.pods = append(i.pods, pod{s.Name, is.Kind, *s.Spec.Replicas, s.Spec.Template, s.Spec.Selector.MatchLabels})
		if len(s.Spec.VolumeClaimTemplates) != 1 {
			t.Errorf("%s: got %d volume claim templates, want 1", s.Name, len(s.Spec.VolumeClaimTemplates))
		}
	case batchv1.SchemeGroupVersion.WithKind("Job"):
		j := strict[batchv1.Job](t, text)
		i.pods = append(i.pods, pod{j.Name, is.Kind, 1, j.Spec.Template, nil})
		if j.Spec.BackoffLimit == nil || j.Spec.TTLSecondsAfterFinished == nil {
			t.Errorf("%s: backoffLimit or ttlSecondsAfterFinished is not set, want both", j.Name)
		}
	case policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):
		i.budgets = append(i.budgets, strict[policyv1.PodDisruptionBudget](t, text))
	case networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):
		i.policies = append(i.policies, strict[networkingv1.NetworkPolicy](t, text))
	case corev1.SchemeGroupVersion.WithKind("Service"):
		i.services = append(i.services, strict[corev1.Service](t, text))
	case corev1.SchemeGroupVersion.WithKind("ServiceAccount"):
		i.accounts = append(i.accounts, strict[corev1.ServiceAccount](t, text))
	case rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):
		i.rights = append(i.rights, strict[rbacv1.ClusterRole](t, text))
	case rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):
		i.bindings = append(i.bindings, strict[rbacv1.ClusterRoleBinding](t, text))
	case corev1.SchemeGroupVersion.WithKind("Namespace"):
		i.namespace = strict[corev1.Namespace](t, text)
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		s := strict[corev1.Secret](t, text)
		for key := range s.Data {
			i.configs["Secret/"+s.Name] = append(i.configs["Secret/"+s.Name], key)
		}
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		c := strict[corev1.ConfigMap](t, text)
		for key := range c.Data {
			i.configs["ConfigMap/"+c.Name] = append(i.configs["ConfigMap/"+c.Name], key)
		}
	default:
		t.Errorf("got an object of %v, want only kinds that this test checks", is.GroupVersionKind())
	}
}

func installed(t *testing.T, name string) *installation {
	t.Helper()
	i := &installation{configs: map[string][]string{}}
	for _, text := range overlay(t, name) {
		i.read(t, text)
	}
	return i
}

var overlays = []string{"single", "cluster", "single+kubewatch", "cluster+kubewatch", "single+namespaced", "cluster+namespaced", "cluster+investigator"}

// TestSchemas checks each object against the schemas of a server, which
// kubectl-validate has. That is a program of its own, because its Kubernetes modules
// are older than those of kustomize.
func TestSchemas(t *testing.T) {
	bin := t.TempDir()
	must(t, bin, []string{"GOWORK=off", "GOBIN=" + bin}, "go", "install", kubectlValidate)
	for _, name := range overlays {
		objects := overlay(t, name)
		validate := func(change func(string) string) (string, error) {
			dir := t.TempDir()
			for i, text := range objects {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.yaml", i)), []byte(change(string(text))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl-validate"), "--version", kubernetesVersion, dir).CombinedOutput()
			return string(out), err
		}
		if out, err := validate(func(s string) string { return s }); err != nil || strings.Count(out, "OK") != len(objects) {
			t.Errorf("%s: got %v, want \"OK\" %d times in out\n%s", name, err, len(objects), out)
		}
		// It finds errors.
		for _, wrong := range [][2]string{{"periodSeconds: 10", "periodSeconds: often"}, {"readinessProbe:", "readynessProbe:"}, {"type: RuntimeDefault", "type: 7"}} {
			if out, err := validate(func(s string) string { return strings.ReplaceAll(s, wrong[0], wrong[1]) }); err == nil {
				t.Errorf("%s: %s is valid, want an error\n%s", name, wrong[1], out)
			}
		}
	}
}

// TestPods checks the rules for every pod and container.
func TestPods(t *testing.T) {
	for _, name := range overlays {
		i := installed(t, name)
		if i.namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("%s: labels of the namespace are %v, want pod-security.kubernetes.io/enforce: restricted", name, i.namespace.Labels)
		}
		if len(i.pods) == 0 {
			t.Fatalf("%s: got no pods, want some", name)
		}
		for _, p := range i.pods {
			for _, wrong := range slices.Concat(podRules(p, i), containerRules(p)) {
				t.Errorf("%s: got %s/%s that %s, want none", name, p.kind, p.name, wrong)
			}
		}
	}
}

// podRules returns the rules for pods that a pod violates.
func podRules(p pod, i *installation) (wrong []string) {
	s := p.spec.Spec
	check := func(ok bool, violation string) {
		if !ok {
			wrong = append(wrong, violation)
		}
	}
	check(s.AutomountServiceAccountToken != nil && *s.AutomountServiceAccountToken == (p.name == "kubewatch"), "has a token for the cluster, or none where it needs one")
	check(slices.ContainsFunc(i.accounts, func(a corev1.ServiceAccount) bool {
		return a.Name == s.ServiceAccountName && a.AutomountServiceAccountToken != nil && !*a.AutomountServiceAccountToken
	}), "has no account of its own without a token")
	check(s.EnableServiceLinks != nil && !*s.EnableServiceLinks, "gets the addresses of all services as environment variables")
	check(!s.HostNetwork && !s.HostPID && !s.HostIPC, "shares namespaces with its node")
	if sc := s.SecurityContext; sc == nil {
		check(false, "has no security context")
	} else {
		check(sc.RunAsNonRoot != nil && *sc.RunAsNonRoot, "may be root")
		check(sc.RunAsUser != nil && *sc.RunAsUser > 0, "names no user")
		check(sc.SeccompProfile != nil && sc.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "has no seccomp profile")
	}
	for k, v := range p.selector {
		check(p.spec.Labels[k] == v, "does not select its own pods")
	}
	// A Secret or ConfigMap that is named exists, under its final name.
	for _, v := range s.Volumes {
		switch {
		case v.Secret != nil:
			check(len(i.configs["Secret/"+v.Secret.SecretName]) > 0, "mounts a Secret that does not exist: "+v.Secret.SecretName)
		case v.ConfigMap != nil:
			check(len(i.configs["ConfigMap/"+v.ConfigMap.Name]) > 0, "mounts a ConfigMap that does not exist: "+v.ConfigMap.Name)
		case v.Projected != nil:
			holders := 0
			for _, c := range s.Containers {
				if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
					holders++
					check(c.Name == "kubewatch", "has a token for the cluster in "+c.Name)
				}
			}
			check(holders == 1, "mounts "+v.Name)
		default:
			check(false, "mounts "+v.Name)
		}
	}
	if p.kind == "Job" {
		return wrong
	}
	check(s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds >= 45, "has a grace period of less than 45 s")
	if p.replicas == 1 {
		return wrong
	}
	spread := slices.ContainsFunc(s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.TopologyKey == corev1.LabelHostname && matches(c.LabelSelector, p.spec.Labels)
	})
	check(spread, "may run on one node only")
	budgets := 0
	for _, b := range i.budgets {
		if matches(b.Spec.Selector, p.spec.Labels) {
			budgets++
		}
	}
	check(budgets == 1, fmt.Sprintf("has %d disruption budgets", budgets))
	return wrong
}

func matches(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(of))
}

// containerRules returns the rules for containers that a pod violates.
func containerRules(p pod) (wrong []string) {
	if n := len(p.spec.Spec.InitContainers); n > 0 {
		wrong = append(wrong, "has init containers, which the test does not check")
	}
	for _, c := range p.spec.Spec.Containers {
		check := func(ok bool, violation string) {
			if !ok {
				wrong = append(wrong, violation+" ("+c.Name+")")
			}
		}
		check(!c.Resources.Limits.Memory().IsZero() && !c.Resources.Limits.Cpu().IsZero(), "has no limits")
		check(!c.Resources.Requests.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "requests no resources")
		if sc := c.SecurityContext; sc == nil || sc.Capabilities == nil {
			check(false, "has no security context")
		} else {
			check(sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation, "may gain privileges")
			check(sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem, "has a writable root file system")
			check(slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(sc.Capabilities.Add) == 0, "has capabilities")
			check(sc.Privileged == nil || !*sc.Privileged, "is privileged")
		}
		_, tag, ok := strings.Cut(c.Image, ":")
		check(ok && tag != "" && tag != "latest", "has an image without a version: "+c.Image)
		for _, e := range c.Env {
			check(e.Value != "secret" && !strings.HasPrefix(e.Value, "SU"), "has a secret in plain text: "+e.Name)
		}
		if limit := c.Resources.Limits.Memory(); p.kind != "Job" {
			check(hasVariable(c, "GOMEMLIMIT") && limit.Value() > 0, "has no GOMEMLIMIT")
		}
		if p.kind == "Job" {
			continue
		}
		for what, probe := range map[string]*corev1.Probe{"starts": c.StartupProbe, "is ready": c.ReadinessProbe, "lives": c.LivenessProbe} {
			check(probe != nil, "has no probe whether it "+what)
			if probe == nil {
				continue
			}
			check(probe.TimeoutSeconds > 0 && probe.PeriodSeconds > 0, "has a probe without bounds whether it "+what)
			if get := probe.HTTPGet; get != nil {
				check(slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == get.Port.StrVal }), "is asked at "+get.Port.StrVal)
				ours := strings.Contains(c.Image, "tocsin")
				host := slices.ContainsFunc(get.HTTPHeaders, func(h corev1.HTTPHeader) bool { return h.Name == "Host" && h.Value == "localhost" })
				check(!ours || host, "refuses the Host of a kubelet")
			}
		}
		check(c.LivenessProbe == nil || c.LivenessProbe.HTTPGet == nil || !strings.HasPrefix(c.LivenessProbe.HTTPGet.Path, "/readyz"), "restarts when the bus is unreachable")
	}
	return wrong
}

func hasVariable(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.Value != "" })
}

// TestServicesFindPods checks that each name leads to a port of a pod.
func TestServicesFindPods(t *testing.T) {
	for _, name := range overlays {
		i := installed(t, name)
		for _, s := range i.services {
			found := 0
			for _, p := range i.pods {
				if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.spec.Labels)) {
					continue
				}
				found++
				for _, port := range s.Spec.Ports {
					if !hasPort(p, port.TargetPort.StrVal) {
						t.Errorf("%s: service %s has target port %s, want a port of %s", name, s.Name, port.TargetPort.StrVal, p.name)
					}
				}
			}
			if found != 1 {
				t.Errorf("%s: service %s selects pods of %d workloads, want 1", name, s.Name, found)
			}
		}
	}
}

func hasPort(p pod, name string) bool {
	return slices.ContainsFunc(p.spec.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == name })
	})
}

// TestNetworkPolicies checks that nothing is allowed by default, that every policy
// selects existing pods, and that every port in use is open for its clients.
func TestNetworkPolicies(t *testing.T) {
	for _, name := range overlays {
		i := installed(t, name)
		closed := false
		opened := map[string]bool{}
		for _, np := range i.policies {
			for _, rule := range np.Spec.Egress {
				if len(rule.Ports) == 0 || len(rule.To) == 0 {
					t.Errorf("%s: policy %s allows connections to any address or port, want To and Ports", name, np.Name)
				}
			}
			if len(np.Spec.PodSelector.MatchLabels) == 0 {
				closed = closed || len(np.Spec.PolicyTypes) == 2 && len(np.Spec.Ingress) == 0 && len(np.Spec.Egress) == 0
				continue
			}
			found := false
			for _, p := range i.pods {
				if !matches(&np.Spec.PodSelector, p.spec.Labels) {
					continue
				}
				found = true
				for _, rule := range np.Spec.Ingress {
					if len(rule.From) == 0 || len(rule.Ports) == 0 {
						t.Errorf("%s: policy %s allows connections from any client or to any port, want From and Ports", name, np.Name)
					}
					for _, port := range rule.Ports {
						if !hasPort(p, port.Port.StrVal) {
							t.Errorf("%s: policy %s opens port %s, want a port of %s", name, np.Name, port.Port.StrVal, p.name)
						}
						opened[p.name+" "+port.Port.StrVal] = true
					}
				}
			}
			if !found && strings.HasPrefix(name, "cluster") { // the base is for both
				t.Errorf("%s: policy %s selects no pods, want some", name, np.Name)
			}
		}
		if !closed {
			t.Errorf("%s: got no policy that forbids everything by default, want one", name)
		}
		for _, p := range i.pods {
			for _, c := range p.spec.Spec.Containers {
				for _, port := range c.Ports {
					// Policies do not apply to a kubelet, and no other client uses a
					// server's monitor.
					if !opened[p.name+" "+port.Name] && port.Name != "monitor" {
						t.Errorf("%s: no policy opens port %s of %s, want one", name, port.Name, p.name)
					}
				}
			}
		}
	}
}

// TestKeysAreForTheirRole checks that pods have their role's key only.
func TestKeysAreForTheirRole(t *testing.T) {
	for _, name := range []string{"cluster+kubewatch", "cluster+investigator"} {
		checkKeys(t, installed(t, name))
	}
}

func checkKeys(t *testing.T, i *installation) {
	t.Helper()
	for _, p := range i.pods {
		var got []string
		for _, v := range p.spec.Spec.Volumes {
			if v.Secret != nil {
				name, _, _ := strings.Cut(strings.TrimPrefix(v.Secret.SecretName, "key-"), "-")
				got = append(got, name)
			}
		}
		want := map[string][]string{
			"ingest": {"ingest"}, "detector": {"detector"}, "dashboard": {"dashboard", "gateway"}, "provision": {"provisioner"},
			"kubewatch": {"kubewatch"}, "investigator": {"investigator"}, "nats": nil,
		}[p.name]
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got keys %v, want %v", p.name, got, want)
		}
	}
}

// TestInvestigator checks that the component is off by default, that its pods have the
// configuration and the keys that it names, and that the dashboard finds them.
func TestInvestigator(t *testing.T) {
	for _, name := range []string{"cluster", "cluster+kubewatch"} {
		if i := installed(t, name); slices.ContainsFunc(i.pods, func(p pod) bool { return p.name == "investigator" }) {
			t.Errorf("%s has an investigator, want none", name)
		}
	}
	i := installed(t, "cluster+investigator")
	var service corev1.Service
	for _, s := range i.services {
		if s.Name == "investigator" {
			service = s
		}
	}
	found := map[string]bool{}
	for _, p := range i.pods {
		c := p.spec.Spec.Containers[0]
		switch p.name {
		case "investigator":
			found[p.name] = true
			for _, from := range c.EnvFrom {
				if strings.HasPrefix(from.SecretRef.Name, "investigator-keys-") {
					found["keys"] = slices.Equal(i.configs["Secret/"+from.SecretRef.Name], []string{"ANTHROPIC_API_KEY"})
				}
			}
			for _, v := range p.spec.Spec.Volumes {
				if v.ConfigMap != nil {
					found["configuration"] = slices.Equal(i.configs["ConfigMap/"+v.ConfigMap.Name], []string{"investigator.yaml"})
				}
			}
		case "dashboard":
			url := fmt.Sprintf("http://%s:%d", service.Name, service.Spec.Ports[0].Port)
			found[p.name] = slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "TOCSIN_INVESTIGATOR_URL" && e.Value == url })
		}
	}
	for _, what := range []string{"investigator", "keys", "configuration", "dashboard"} {
		if !found[what] {
			t.Errorf("the component investigator: %s is not connected, want it", what)
		}
	}
	if !strings.Contains(string(read(t, deploy(t, "kubernetes", "README.md"))), investigating) {
		t.Errorf("deploy/kubernetes/README.md: got no %q, want it", investigating)
	}
}

// TestRights checks that kubewatch may read what it reports and nothing else, and that
// no other pod has any rights.
func TestRights(t *testing.T) {
	want := []string{
		"apps deployments list", "apps deployments watch",
		"batch jobs list", "batch jobs watch",
		"core events list", "core events watch",
		"core namespaces/kube-system get",
		"core nodes list", "core nodes watch",
		"core pods list", "core pods watch",
		"core pods/log get",
	}
	for _, name := range overlays {
		i := installed(t, name)
		if !strings.HasSuffix(name, "+kubewatch") { // an object in one namespace has its Role there
			if len(i.rights)+len(i.bindings) > 0 {
				t.Errorf("%s: got %d ClusterRoles and %d bindings, want none", name, len(i.rights), len(i.bindings))
			}
			continue
		}
		if len(i.rights) != 1 || len(i.bindings) != 1 {
			t.Fatalf("%s: %d roles, %d bindings, want 1 entry in rights and 1 entry in bindings", name, len(i.rights), len(i.bindings))
		}
		var got []string
		for _, r := range i.rights[0].Rules {
			got = append(got, allowed(r)...)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the ClusterRole allows %q, want %q", name, got, want)
		}
		b := i.bindings[0]
		holder := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "kubewatch", Namespace: "tocsin"}}
		if b.RoleRef.Name != i.rights[0].Name || !slices.Equal(b.Subjects, holder) {
			t.Errorf("%s: got a binding of %s to %v, want %s to %v", name, b.RoleRef.Name, b.Subjects, i.rights[0].Name, holder)
		}
		holders := 0
		for _, p := range i.pods {
			if p.spec.Spec.ServiceAccountName == "kubewatch" {
				holders++
			}
		}
		if holders != 1 {
			t.Errorf("%s: got %d workloads with the account kubewatch, want 1", name, holders)
		}
		// Enabling it is what the page describes.
		overlay, _, _ := strings.Cut(name, "+")
		if !strings.Contains(string(read(t, deploy(t, "kubernetes", "README.md"))), watching[overlay]) {
			t.Errorf("deploy/kubernetes/README.md: got no %q, want it", watching[overlay])
		}
	}
}

// TestAPIServerAccess checks that kubewatch may connect to the configured addresses, and
// to none without configuration.
func TestAPIServerAccess(t *testing.T) {
	for name, want := range map[string][]string{
		"cluster+closed": nil, "single+closed": nil,
		"cluster+kubewatch": {"10.0.0.1/32:6443", "10.0.0.2/32:6443", "fd00::1/128:443"},
		"single+namespaced": {"10.0.0.1/32:6443", "10.0.0.2/32:6443", "fd00::1/128:443"},
	} {
		var got []string
		found := false
		for _, np := range installed(t, name).policies {
			if np.Name != "kubewatch" {
				continue
			}
			found = slices.Contains(np.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			for _, rule := range np.Spec.Egress {
				for _, to := range rule.To {
					for _, port := range rule.Ports {
						got = append(got, fmt.Sprintf("%s:%d", to.IPBlock.CIDR, port.Port.IntValue()))
					}
				}
			}
		}
		if !found || !slices.Equal(got, want) {
			t.Errorf("%s: kubewatch may connect to %q, want %q; got a policy: %v, want one", name, got, want, found)
		}
	}
	readme := string(read(t, deploy(t, "kubernetes", "README.md")))
	for _, line := range []string{apiServerAccess, oneNamespace, watchingOne["cluster"], "-o go-template-file=kubewatch/api-server.tmpl", "kubewatch/namespaced/role.yaml"} {
		if !strings.Contains(readme, line) {
			t.Errorf("deploy/kubernetes/README.md: got no %q, want it", line)
		}
	}
}

// TestRightsInOneNamespace checks that with the component namespaced there are no
// cluster-wide rights, and that the Role in its namespace has what kubewatch needs
// there.
func TestRightsInOneNamespace(t *testing.T) {
	for _, name := range []string{"single+namespaced", "cluster+namespaced"} {
		i := installed(t, name)
		if len(i.rights)+len(i.bindings) > 0 {
			t.Errorf("%s: %d ClusterRoles, %d bindings, want none", name, len(i.rights), len(i.bindings))
		}
		watched := 0
		for _, p := range i.pods {
			for _, c := range p.spec.Spec.Containers {
				for _, e := range c.Env {
					if e.Name != "TOCSIN_KUBE_NAMESPACE" {
						continue
					}
					watched++
					if ref := e.ValueFrom.ConfigMapKeyRef; c.Name != "kubewatch" || !slices.Equal(i.configs["ConfigMap/"+ref.Name], []string{ref.Key}) {
						t.Errorf("%s: TOCSIN_KUBE_NAMESPACE of %s is key %s of %s, which has %q; want kubewatch with the only key", name, c.Name, ref.Key, ref.Name, i.configs["ConfigMap/"+ref.Name])
					}
				}
			}
		}
		if watched != 1 {
			t.Errorf("%s: got %d containers with TOCSIN_KUBE_NAMESPACE, want 1", name, watched)
		}
	}
	objects := strings.Split(string(read(t, deploy(t, "kubernetes", "kubewatch", "namespaced", "role.yaml"))), "\n---\n")
	role, binding := strict[rbacv1.Role](t, []byte(objects[0])), strict[rbacv1.RoleBinding](t, []byte(objects[1]))
	var got []string
	for _, r := range role.Rules {
		got = append(got, allowed(r)...)
	}
	want := []string{
		"apps deployments list", "apps deployments watch",
		"batch jobs list", "batch jobs watch",
		"core events list", "core events watch",
		"core namespaces get",
		"core pods list", "core pods watch",
		"core pods/log get",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the Role allows %q, want %q", got, want)
	}
	holder := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "kubewatch", Namespace: "tocsin"}}
	if role.Namespace != "" || binding.Namespace != "" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name || !slices.Equal(binding.Subjects, holder) {
		t.Errorf("got the Role in %q, bound in %q by %+v to %v; want no namespaces, and a binding of %s to %v", role.Namespace, binding.Namespace, binding.RoleRef, binding.Subjects, role.Name, holder)
	}
}

// allowed returns what a rule allows, each with a verb.
func allowed(r rbacv1.PolicyRule) (all []string) {
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				of := resource
				if len(r.ResourceNames) > 0 {
					of += "/" + strings.Join(r.ResourceNames, ",")
				}
				all = append(all, cmp.Or(group, "core")+" "+of+" "+verb)
			}
		}
	}
	for _, url := range r.NonResourceURLs {
		all = append(all, "url "+url)
	}
	return all
}

// TestSecretsAreNotCommitted checks that git ignores the secrets that a person makes.
func TestSecretsAreNotCommitted(t *testing.T) {
	git := program(t, "git")
	for _, file := range []string{
		"compose/.env", "compose/keys/ingest.nk", "compose/keys/kubeconfig", "kubernetes/overlays/cluster/keys/ingest.nk",
		"kubernetes/overlays/cluster/token.env", "kubernetes/overlays/single/token.env",
		"kubernetes/investigator/investigator.env",
	} {
		must(t, deploy(t), nil, git, "check-ignore", "-q", file)
	}
}

// TestKustomizeWorksInKubectl builds the overlays with kubectl, if it is installed.
func TestKustomizeWorksInKubectl(t *testing.T) {
	kubectl := program(t, "kubectl")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deploy(t))); err != nil {
		t.Fatal(err)
	}
	single := filepath.Join(dir, "kubernetes", "overlays", "single")
	if err := os.WriteFile(filepath.Join(single, "token.env"), []byte("TOCSIN_TOKEN=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, dir, nil, kubectl, "kustomize", single); !strings.Contains(out, "kind: StatefulSet") {
		t.Errorf("got %s, want \"kind: StatefulSet\" in it", out)
	}
	file := filepath.Join(single, "kustomization.yaml")
	if err := os.WriteFile(file, slices.Concat(read(t, file), []byte(watching["single"]+"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, dir, nil, kubectl, "kustomize", single); !strings.Contains(out, "kind: ClusterRoleBinding") {
		t.Errorf("got %s, want \"kind: ClusterRoleBinding\" in it", out)
	}
}
