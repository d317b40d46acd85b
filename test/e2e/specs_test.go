package e2e

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	specs "sigs.k8s.io/cluster-api/test/e2e"
)

var _ = Describe("A cluster is made", Label("quick-start"), func() {
	specs.QuickStartSpec(ctx, func() specs.QuickStartSpecInput {
		return specs.QuickStartSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("A cluster of a ClusterClass is made", Label("quick-start-clusterclass"), func() {
	specs.QuickStartSpec(ctx, func() specs.QuickStartSpecInput {
		topology := "topology"
		return specs.QuickStartSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			Flavor:                 &topology,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("A MachineDeployment is scaled", Label("md-scale"), func() {
	specs.MachineDeploymentScaleSpec(ctx, func() specs.MachineDeploymentScaleSpecInput {
		return specs.MachineDeploymentScaleSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("Machines are changed in place and replaced", Label("md-rollout"), func() {
	specs.KCPAndMachineDeploymentRolloutSpec(ctx, func() specs.KCPAndMachineDeploymentRolloutSpecInput {
		return specs.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			Flavor:                 "kcp-md-taints",
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("An unhealthy worker is replaced", Label("md-remediation"), func() {
	specs.MachineDeploymentRemediationSpec(ctx, func() specs.MachineDeploymentRemediationSpecInput {
		return specs.MachineDeploymentRemediationSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("A control plane is adopted", Label("kcp-adoption"), func() {
	specs.KCPAdoptionSpec(ctx, func() specs.KCPAdoptionSpecInput {
		return specs.KCPAdoptionSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("Nodes are drained", Label("node-drain"), func() {
	specs.NodeDrainTimeoutSpec(ctx, func() specs.NodeDrainTimeoutSpecInput {
		return specs.NodeDrainTimeoutSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			PostNamespaceCreated:   assign,
		}
	})
})

var _ = Describe("A ClusterClass is changed", Label("clusterclass-changes"), func() {
	specs.ClusterClassChangesSpec(ctx, func() specs.ClusterClassChangesSpecInput {
		return specs.ClusterClassChangesSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			Flavor:                 "topology",
			PostNamespaceCreated:   assign,
			ModifyControlPlaneFields: map[string]any{
				"spec.kubeadmConfigSpec.verbosity": int64(4),
			},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{
				"spec.template.spec.verbosity": int64(4),
			},
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				"spec.template.spec.powerOffMode": "trySoft",
			},
		}
	})
})

var _ = Describe("A cluster is deleted in order", Label("cluster-deletion"), func() {
	specs.ClusterDeletionSpec(ctx, func() specs.ClusterDeletionSpecInput {
		topology := "topology"
		return specs.ClusterDeletionSpecInput{
			E2EConfig:              e2eConfig,
			ClusterctlConfigPath:   clusterctlConfigPath,
			BootstrapClusterProxy:  bootstrapClusterProxy,
			ArtifactFolder:         artifactFolder,
			InfrastructureProvider: &infrastructure,
			Flavor:                 &topology,
			PostNamespaceCreated:   assign,
			ClusterDeletionPhases: []specs.ClusterDeletionPhase{
				{ObjectFilter: isOfWorkers, BlockingObjectFilter: isKind("Machine")},
				{ObjectFilter: isOfControlPlane, BlockingObjectFilter: isKind("Machine")},
				{ObjectFilter: isKind("WCPCluster"), BlockingObjectFilter: isKind("WCPCluster")},
			},
		}
	})
})

type objectFilter = func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool

func isKind(kind string) objectFilter {
	return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool { return object.Kind == kind }
}

func isOfWorkers(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
	kinds := []string{"MachineDeployment", "MachineSet"}
	return slices.Contains(kinds, object.Kind) || isMachineOf(object, owners, kinds...)
}

func isOfControlPlane(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
	return object.Kind == "KubeadmControlPlane" || isMachineOf(object, owners, "KubeadmControlPlane")
}

func isMachineOf(object corev1.ObjectReference, owners []metav1.OwnerReference, kinds ...string) bool {
	ofKind := func(owner metav1.OwnerReference) bool { return slices.Contains(kinds, owner.Kind) }
	return object.Kind == "Machine" && slices.ContainsFunc(owners, ofKind)
}
