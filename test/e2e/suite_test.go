package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"
)

// What every spec is given.
var (
	ctx                   = ctrl.SetupSignalHandler()
	e2eConfig             *clusterctl.E2EConfig
	clusterctlConfigPath  string
	bootstrapClusterProxy framework.ClusterProxy
	artifactFolder        string
	infrastructure        string
)

func TestE2E(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" || os.Getenv("E2E_REPOSITORY") == "" {
		t.Skip("KUBECONFIG or E2E_REPOSITORY is not set: test/e2e/run starts a stack and runs the specs on it")
	}
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	RunSpecs(t, "Cluster API on Layercake")
}

var _ = BeforeSuite(func() {
	artifactFolder = os.Getenv("E2E_ARTIFACTS")
	Expect(artifactFolder).ToNot(BeEmpty(), "E2E_ARTIFACTS is the folder for logs and dumps")
	Expect(os.MkdirAll(artifactFolder, 0o750)).To(Succeed())
	text, err := os.ReadFile("config.yaml")
	Expect(err).ToNot(HaveOccurred())
	e2eConfig = &clusterctl.E2EConfig{}
	Expect(yaml.UnmarshalStrict(text, e2eConfig)).To(Succeed())
	clusterctlConfigPath = writeClusterctlConfig(os.Getenv("E2E_REPOSITORY"))

	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	bootstrapClusterProxy = framework.NewClusterProxy("layercake", os.Getenv("KUBECONFIG"), scheme)
	makeStorageClass(bootstrapClusterProxy.GetClient())
})

var _ = AfterSuite(func() {
	if bootstrapClusterProxy != nil {
		bootstrapClusterProxy.Dispose(context.Background())
	}
})

// writeClusterctlConfig has clusterctl take the provider's files from a folder, and variables from the configuration.
func writeClusterctlConfig(repository string) string {
	versions, err := os.ReadDir(filepath.Join(repository, "infrastructure-wcp"))
	Expect(err).ToNot(HaveOccurred())
	Expect(versions).To(HaveLen(1), "a repository of one version")
	version := versions[0].Name()
	infrastructure = "wcp:" + version
	settings := map[string]any{
		"providers": []map[string]string{{
			"name": "wcp", "type": "InfrastructureProvider",
			"url": filepath.Join(repository, "infrastructure-wcp", version, "infrastructure-components.yaml"),
		}},
	}
	for name, value := range e2eConfig.Variables {
		settings[name] = value
	}
	text, err := yaml.Marshal(settings)
	Expect(err).ToNot(HaveOccurred())
	path := filepath.Join(artifactFolder, "clusterctl.yaml")
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed(), fmt.Sprintf("write %s", path))
	return path
}
