package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// policyID is a storage policy of the simulated vCenter.
const policyID = "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"

// makeStorageClass makes the storage class of all nodes, as an administrator does once.
func makeStorageClass(to client.Client) {
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: e2eConfig.MustGetVariable("VSPHERE_STORAGE_CLASS")},
		Provisioner: "csi.vsphere.vmware.com",
		Parameters:  map[string]string{"storagePolicyID": policyID},
	}
	Expect(client.IgnoreAlreadyExists(to.Create(ctx, class))).To(Succeed())
}

// assign gives a namespace its storage and VM classes, as an administrator does for each namespace.
func assign(proxy framework.ClusterProxy, namespace string) {
	storage := e2eConfig.MustGetVariable("VSPHERE_STORAGE_CLASS")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-storagequota", Namespace: namespace},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceName(storage + ".storageclass.storage.k8s.io/requests.storage"): resource.MustParse("1Ti"),
		}},
	}
	Expect(proxy.GetClient().Create(ctx, quota)).To(Succeed())
	const group = "vmoperator.vmware.com/v1alpha1"
	class := e2eConfig.MustGetVariable("VSPHERE_MACHINE_CLASS_NAME")
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group, "kind": "VirtualMachineClassBinding",
		"metadata": map[string]any{"name": class, "namespace": namespace},
		"classRef": map[string]any{"apiVersion": group, "kind": "VirtualMachineClass", "name": class},
	}}
	Expect(proxy.GetClient().Create(ctx, binding)).To(Succeed())
}
