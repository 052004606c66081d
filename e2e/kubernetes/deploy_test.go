package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// run runs a program, and returns its output.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// TestOverlaysAreAccepted does what deploy/kubernetes/README.md says, with each overlay
// and kubewatch: the server accepts every object without a warning, such as for a pod
// that its own namespace would not admit, and a second time nothing changes.
func TestOverlaysAreAccepted(t *testing.T) {
	t.Parallel()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not here")
	}
	readme, err := os.ReadFile("../../deploy/kubernetes/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for overlay, pods := range map[string][]string{
		"single":  {"StatefulSet/tocsin"},
		"cluster": {"Deployment/dashboard", "Deployment/detector", "Deployment/ingest", "Deployment/kubewatch", "Job/provision", "StatefulSet/nats"},
	} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			s := kube.Start(t, kube.Options{})
			tocsin := binary(t)
			deploy := t.TempDir()
			if err := os.CopyFS(deploy, os.DirFS("../../deploy")); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(deploy, "kubernetes", "overlays", overlay)
			run(t, filepath.Join(deploy, "kubernetes"), tocsin, "keys", filepath.Join("overlays", overlay, "keys"))
			if err := os.WriteFile(filepath.Join(at, "token.env"), []byte("TOCSIN_TOKEN=secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			line := regexp.MustCompile("(?m)^\\| `" + overlay + "` \\| `(components: [^`]*)`").FindSubmatch(readme)
			if line == nil {
				t.Fatalf("the README of deploy/kubernetes has no row with the components of the overlay %s, want one that enables kubewatch", overlay)
			}
			f, err := os.OpenFile(filepath.Join(at, "kustomization.yaml"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.Write(append(line[1], '\n')); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			apply := []string{"--kubeconfig", s.Kubeconfig(), "apply", "-k", at}
			if out := run(t, at, kubectl, apply...); strings.Contains(out, "Warning") {
				t.Errorf("got %s, want no \"Warning\" in it", out)
			}
			run(t, at, kubectl, apply...)
			if got := workloads(t, s); !slices.Equal(got, pods) {
				t.Errorf("workloads = %v, want %v", got, pods)
			}
		})
	}
}

// workloads checks the objects that make pods in the namespace tocsin. None was changed
// since it was created.
func workloads(t *testing.T, s *kube.Server) (all []string) {
	t.Helper()
	client, ctx, list := s.Client(), t.Context(), metav1.ListOptions{}
	deployments, err := client.AppsV1().Deployments("tocsin").List(ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := client.AppsV1().StatefulSets("tocsin").List(ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := client.BatchV1().Jobs("tocsin").List(ctx, list)
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind string, o metav1.ObjectMeta) {
		all = append(all, kind+"/"+o.Name)
		if o.Generation != 1 {
			t.Errorf("generation of %s %s = %d, want 1: applying the same again must replace no pod", kind, o.Name, o.Generation)
		}
	}
	for _, o := range deployments.Items {
		add("Deployment", o.ObjectMeta)
	}
	for _, o := range sets.Items {
		add("StatefulSet", o.ObjectMeta)
	}
	for _, o := range jobs.Items {
		add("Job", o.ObjectMeta)
	}
	slices.Sort(all)
	return all
}
