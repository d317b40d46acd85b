package reads

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// modules are the sources of the managers that read objects of tenants' namespaces, by the folder in plane/modules.
var modules = []struct {
	folder, module string
	folders        []string
}{
	{"capi", "sigs.k8s.io/cluster-api", []string{"core", "bootstrap/kubeadm", "controlplane/kubeadm", "controllers", "exp", "internal", "util"}},
	{"ipam", "sigs.k8s.io/cluster-api-ipam-provider-in-cluster", []string{"."}},
}

// sources downloads a module in the version that the stack is built from, and returns its folder.
func sources(t *testing.T, folder, module string) string {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(repository, "plane/modules", folder)
	version := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module)
	version.Dir = command.Dir
	text, err := version.Output()
	if err != nil {
		t.Fatalf("the version of %s: %v", module, err)
	}
	command.Args[len(command.Args)-1] = module + "@" + strings.TrimSpace(string(text))
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, output)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(output, &downloaded); err != nil {
		t.Fatal(err)
	}
	return downloaded.Dir
}

// known returns the functions that reads.txt lists, and fails if one has no reason.
func known(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("reads.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		function, what, _ := strings.Cut(line, ": ")
		if what == "" {
			t.Errorf("reads.txt does not say what %s reads", function)
		}
		all = append(all, function)
	}
	return all
}

func TestEveryFunctionThatHandlesSecretsIsListed(t *testing.T) {
	listed := known(t)
	var found []string
	for _, module := range modules {
		functions, err := Functions(sources(t, module.folder, module.module), module.folders)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range functions {
			found = append(found, module.folder+" "+function)
		}
	}
	for _, function := range found {
		if !slices.Contains(listed, function) {
			t.Errorf("%s handles Secrets or ConfigMaps. If it reads one that a tenant can write, restrict it in config/capw/admission-secrets.yaml "+
				"and list it in docs/security.md. Then add it to reads.txt", function)
		}
	}
	for _, function := range listed {
		if !slices.Contains(found, function) {
			t.Errorf("reads.txt lists %s, which does not handle Secrets or ConfigMaps", function)
		}
	}
}

func TestThePolicyAndThePageNameEverySecretOfACluster(t *testing.T) {
	consts, err := os.ReadFile(filepath.Join(sources(t, "capi", "sigs.k8s.io/cluster-api"), "util/secret/consts.go"))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile(filepath.Join(repository, "config/capw/admission-secrets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(repository, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	purposes := regexp.MustCompile(`Purpose\("([^"]+)"\)`).FindAllStringSubmatch(string(consts), -1)
	if len(purposes) < 6 {
		t.Fatalf("only %d purposes of Secrets were found", len(purposes))
	}
	list := regexp.MustCompile(`\[('[a-z-]+'(?:, )?)+\]\.exists\(ending`).FindString(string(policy))
	for _, purpose := range purposes {
		if !strings.Contains(list, fmt.Sprintf("'%s'", purpose[1])) {
			t.Errorf("vmware-system-capw-cluster-secrets does not name %s", purpose[1])
		}
		if !strings.Contains(string(page), fmt.Sprintf("`NAME-%s`", purpose[1])) {
			t.Errorf("docs/security.md does not name NAME-%s", purpose[1])
		}
	}
}
