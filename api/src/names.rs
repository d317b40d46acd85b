//! Label, annotation and finalizer names, and names for a cluster's objects.

mod objects;

pub use objects::*;

/// The maximum DNS label length, in characters. It limits machine names, and names that become label values or
/// Services.
pub const MAX_MACHINE_NAME: usize = 63;

/// OVF properties that describe a node image built by image-builder.
pub mod image_builder {
    /// The Kubernetes version, such as `v1.33.1`. An image with this property is a node image.
    pub const KUBERNETES_SEMVER: &str = "KUBERNETES_SEMVER";
    /// The Linux distribution, such as `ubuntu`.
    pub const DISTRO_NAME: &str = "DISTRO_NAME";
    /// The distribution version, such as `24.04`.
    pub const DISTRO_VERSION: &str = "DISTRO_VERSION";
    /// The CPU architecture, such as `amd64`.
    pub const DISTRO_ARCH: &str = "DISTRO_ARCH";
    /// All image-builder properties that VM Operator keeps for a node image.
    pub const PROPERTIES: [&str; 7] = [
        KUBERNETES_SEMVER,
        "KUBERNETES_SOURCE_TYPE",
        DISTRO_NAME,
        DISTRO_VERSION,
        DISTRO_ARCH,
        "CNI_VERSION",
        "CONTAINERD_VERSION",
    ];
}

/// Label names.
pub mod label {
    /// The Cluster that an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Selects the controller instance that reconciles the object.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Marks objects that belong to a control plane.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// The MachineDeployment that an object belongs to.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// The cluster that a virtual machine belongs to.
    pub const CAPW_CLUSTER_NAME: &str = "capw.vmware.com/cluster.name";
    /// The virtual machine's role in its cluster: [`super::ROLE_CONTROL_PLANE`] or [`super::ROLE_NODE`].
    pub const CAPW_CLUSTER_ROLE: &str = "capw.vmware.com/cluster.role";
    /// The same as [`CAPW_CLUSTER_NAME`], with the prefix for CAPV, capw's successor.
    pub const CAPV_CLUSTER_NAME: &str = "capv.vmware.com/cluster.name";
    /// The same as [`CAPW_CLUSTER_ROLE`], with the prefix for CAPV, capw's successor.
    pub const CAPV_CLUSTER_ROLE: &str = "capv.vmware.com/cluster.role";
    /// The cluster's TanzuKubernetesRelease, on TanzuKubernetesClusters and Clusters.
    pub const TKR: &str = "run.tanzu.vmware.com/tkr";
    /// On Nodes: the node's release version, with `_` for `+`.
    pub const KUBERNETES_DISTRIBUTION_VERSION: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";
    /// The node pool that an object belongs to.
    pub const NODE_POOL: &str = "run.tanzu.vmware.com/node-pool";
    /// Marks a release that isn't compatible with this installation.
    pub const INCOMPATIBLE: &str = "run.tanzu.vmware.com/incompatible";
    /// On a TanzuKubernetesCluster: a request to release its Cluster. Not supported: gcm only warns about the label.
    pub const RETIRE_TKC: &str = "kubernetes.vmware.com/retire-tkc";
    /// Marks a deactivated release.
    pub const DEACTIVATED: &str = "run.tanzu.vmware.com/deactivated";
    /// Marks a deleted release.
    pub const DELETED: &str = "run.tanzu.vmware.com/deleted";
    /// Marks a release with invalid data.
    pub const INVALID: &str = "run.tanzu.vmware.com/invalid";
    /// Marks a release whose OSImages contain different release data.
    pub const CONFLICTING_OS_IMAGES: &str = "run.tanzu.vmware.com/conflicting-os-images";
    /// On a ContentSource: `true` if the node images in its library become releases. On a VirtualMachineImage: `true` if its
    /// library's ContentSource has this label, otherwise `false`.
    pub const RELEASE_LIBRARY: &str = "run.tanzu.vmware.com/release-library";
    /// On a published VirtualMachineImage: its VirtualMachinePublishRequest's UID.
    pub const PUBLISH_REQUEST: &str = "vmoperator.vmware.com/publish-request-uid";
    /// Marks a release without packages.
    pub const LEGACY_TKR: &str = "run.tanzu.vmware.com/legacy-tkr";
    /// The zone in which a virtual machine or node is placed.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The UUID by which the web console validator finds a WebConsoleRequest.
    pub const UUID: &str = "vmoperator.vmware.com/webconsolerequest-uuid";
    /// Marks PersistentVolumeClaims that VM Operator created for instance storage, which is local to one host.
    pub const INSTANCE_STORAGE: &str = "vmoperator.vmware.com/instance-storage-resource";
    /// On a CRD: the versions that implement Cluster API's v1beta2 contract.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// On a paused virtual machine, which VM Operator doesn't reconcile: the source of the pause, `devops`, `admin` or
    /// `both`.
    pub const VMOP_PAUSED: &str = "vmoperator.vmware.com/paused";
    /// The provider that an installation object belongs to.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// Marks CRDs that `clusterctl` discovers.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// Marks a ContentSource that VMs can be published to: `true`.
    pub const WRITABLE: &str = "vmoperator.vmware.com/writable";
    /// Marks kinds whose objects `clusterctl move` moves.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// Marks kinds whose objects `clusterctl move` moves together with all their dependents.
    pub const CLUSTERCTL_MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
    /// On a Cluster: marks a management cluster.
    pub const MANAGEMENT_CLUSTER: &str = "cluster-role.tkg.tanzu.vmware.com/management";
    /// On a bundle ConfigMap: the add-on that the bundle installs.
    pub const ADDON_NAME: &str = "tkg.tanzu.vmware.com/addon-name";
    /// On a bundle ConfigMap: restricts the bundle to one cluster.
    pub const ADDON_CLUSTER_NAME: &str = "tkg.tanzu.vmware.com/cluster-name";
}

/// Annotation names.
pub mod annotation {
    /// On a bundle ConfigMap: the add-on category, such as `cni`.
    pub const ADDON_TYPE: &str = "tkg.tanzu.vmware.com/addon-type";
    /// On a storage driver's bundle ConfigMap: `none` if the bundle contains the storage classes of the cluster. The
    /// cluster then doesn't get the storage classes of its namespace.
    pub const STORAGE_CLASSES: &str = "run.tanzu.vmware.com/storage-classes";
    /// Pauses all controllers for the object.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// On an object that `clusterctl move` has moved and now deletes. The resources that the object represents are kept.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// Blocks `clusterctl move` for the object.
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
    /// Marks infrastructure that an external controller manages.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// The cluster module that a virtual machine belongs to.
    pub const CLUSTER_MODULE_GROUP: &str = "vsphere-cluster-module-group";
    /// IDs of the vCenter objects that were created for a resource policy. Only administrators and VM Operator can
    /// write this annotation.
    pub const RESOURCE_POLICY_LEDGER: &str = "vmoperator.vmware.com/cluster-modules";
    /// The virtual machine's vSphere tag.
    pub const VSPHERE_TAG: &str = "vsphere-tag";
    /// Annotations on namespaced objects that controllers read, for settings and for their own records. Caches keep
    /// them regardless of an object's other annotations.
    pub const READ: &[&str] = &[
        PAUSED,
        DELETE_FOR_MOVE,
        BLOCK_MOVE,
        MANAGED_BY,
        CLUSTER_MODULE_GROUP,
        RESOURCE_POLICY_LEDGER,
        VSPHERE_TAG,
        FIRST_BOOT_DONE,
        DISKS,
        VMOP_PAUSE,
        VMOP_PAUSED,
        LAST_RESIZED_CLASS,
        SAME_CLASS_RESIZE,
        SOFT_POWER,
        CLOUD_INIT_INSTANCE_ID,
        CLOUDINIT_TYPE,
        VSPHERE_CUSTOMIZATION,
        FIRMWARE,
        MMIO_SIZE,
        CONTROL_PLANE_ENDPOINT,
        VIRTUAL_ROUTER,
        VIRTUAL_MACHINE,
        NO_DEFAULT_NIC,
        NCP_VIRTUAL_NETWORK,
        RESOLVE_TKR,
        AUTOSCALER_MIN_SIZE,
        AUTOSCALER_MAX_SIZE,
        AUTOSCALER_LABELS,
        AUTOSCALER_TAINTS,
        UPGRADE_IN_STEPS,
        MADE_AS,
        API_SERVER,
        CLUSTER_ID,
        RESOLVE_OS_IMAGE,
        FLANNEL_BACKEND,
        FLANNEL_MTU,
        PROVIDER_SERVICE_ACCOUNT,
        REMEDIATE_MACHINE,
        MACHINE_RECIPE,
    ];
    /// Prefixes for annotations that only administrators can set: extra conditions, and checks before power-on and
    /// deletion.
    pub const PROTECTED_PREFIXES: &[&str] = &[PROTECTED_CONDITION, POWER_ON_CHECK, DELETE_CHECK];
    /// Marks a virtual machine that VM Operator has created once. VM Operator never creates it again.
    pub const FIRST_BOOT_DONE: &str = "virtualmachine.vmoperator.vmware.com/first-boot-done";
    /// The virtual machine's own disks, by UUID and file. They are destroyed together with the VM.
    pub const DISKS: &str = "virtualmachine.vmoperator.vmware.com/disks";
    /// Pauses VM Operator for the virtual machine.
    pub const VMOP_PAUSE: &str = "vmoperator.vmware.com/pause-reconcile";
    /// The same as [`VMOP_PAUSE`], under its newer name.
    pub const VMOP_PAUSED: &str = "vmoperator.vmware.com/paused";
    /// The class that determined the virtual machine's current size: `{"name":…}`.
    pub const LAST_RESIZED_CLASS: &str = "vmoperator.vmware.com/last-resized-vm-class";
    /// Resizes the virtual machine when its class changes, and not only when the spec names another class.
    pub const SAME_CLASS_RESIZE: &str = "vmoperator.vmware.com/same-vm-class-resize";
    /// The requested power state and the request time for a pending guest shutdown or standby.
    pub const SOFT_POWER: &str = "virtualmachine.vmoperator.vmware.com/soft-power";
    /// The name prefix for checks that block a virtual machine's power-on.
    pub const POWER_ON_CHECK: &str = "poweron.check.vmoperator.vmware.com/";
    /// The name prefix for checks that block a virtual machine's deletion.
    pub const DELETE_CHECK: &str = "delete.check.vmoperator.vmware.com/";
    /// The prefix for condition types that an administrator adds. The value is `Type;status;reason;message`.
    pub const PROTECTED_CONDITION: &str = "condition.vmoperator.vmware.com.protected/";
    /// The cloud-init instance-id. Default: the VM's BIOS UUID.
    pub const CLOUD_INIT_INSTANCE_ID: &str = "vmoperator.vmware.com/cloud-init-instance-id";
    /// The cloud-init data source: `guestinfo`, or `cloudinitprep` for vCenter's guest customization.
    pub const CLOUDINIT_TYPE: &str = "vmoperator.vmware.com/cloudinit-type";
    /// `disable` turns off vCenter's guest customization.
    pub const VSPHERE_CUSTOMIZATION: &str = "vmoperator.vmware.com/vsphere-customization";
    /// `bios` or `efi`. Default: the image's firmware.
    pub const FIRMWARE: &str = "vmoperator.vmware.com/firmware";
    /// The 64-bit memory-mapped I/O size for passthrough devices, in GiB. `0` disables it.
    pub const MMIO_SIZE: &str = "vmoperator.vmware.com/pci-passthru-64bit-mmio-size";
    /// The virtual machine that a volume attachment or a network interface object was created for.
    pub const VIRTUAL_MACHINE: &str = "vmoperator.vmware.com/virtualmachine";
    /// Disables the default NIC for a virtual machine without network interfaces.
    pub const NO_DEFAULT_NIC: &str = "vmoperator.vmware.com/no-default-nic";
    /// The host in a cluster's control plane endpoint. On a control plane VirtualMachine: VM Operator records it in vCenter. On a
    /// resource policy: VM Operator looks up the VMs that already use the host, before the cluster uses it.
    pub const CONTROL_PLANE_ENDPOINT: &str = "capw.vmware.com/control-plane-endpoint";
    /// On a WCPCluster and its control plane VirtualMachines: the virtual router ID (VRRP) of the control plane's
    /// address, 1 to 255.
    pub const VIRTUAL_ROUTER: &str = "capw.vmware.com/virtual-router-id";
    /// On a Namespace: its resource pool's managed object ID.
    pub const NAMESPACE_RESOURCE_POOL: &str = "vmware-system-resource-pool";
    /// On a Namespace: its folder's managed object ID.
    pub const NAMESPACE_FOLDER: &str = "vmware-system-vm-folder";
    /// On a Namespace: the vCenter networks that its VMs can use, as comma-separated names or MoIDs. `*` allows all
    /// networks.
    pub const NAMESPACE_NETWORKS: &str = "vmware-system-networks";
    /// The VirtualNetwork that a load balancer belongs to.
    pub const NCP_VIRTUAL_NETWORK: &str = "ncp.vmware.com/virtual-network-name";
    /// A label query that a cluster's release must match.
    pub const RESOLVE_TKR: &str = "run.tanzu.vmware.com/resolve-tkr";
    /// The minimum pool size for the cluster autoscaler.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// The maximum pool size for the cluster autoscaler.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// Node labels in a pool without nodes, for the cluster autoscaler: `a=b,c=d`.
    pub const AUTOSCALER_LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
    /// Node taints in a pool without nodes, for the cluster autoscaler: `key=value:effect,key:effect`.
    pub const AUTOSCALER_TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";
    /// `true` allows an upgrade over several minor releases, one after the other.
    pub const UPGRADE_IN_STEPS: &str = "run.tanzu.vmware.com/upgrade-in-steps";
    /// On a TanzuKubernetesCluster: the UID under which its cluster was created. A copy from `clusterctl move` has
    /// another UID, and waits for its Cluster.
    pub const MADE_AS: &str = "run.tanzu.vmware.com/made-as";
    /// On a TanzuKubernetesCluster: `issuers` if the cluster has or had token issuers. Only gcm can set it.
    pub const API_SERVER: &str = "run.tanzu.vmware.com/api-server";
    /// On a TanzuKubernetesCluster: a cluster ID that stays the same if the cluster moves to another management
    /// cluster, where its objects get new UIDs. Only gcm can set it.
    pub const CLUSTER_ID: &str = "run.tanzu.vmware.com/cluster-id";
    /// Annotations that gcm sets once on a TanzuKubernetesCluster. The admission policy `vmware-system-tkg-records`
    /// lists the same names.
    pub const RECORDS: &[&str] = &[API_SERVER, CLUSTER_ID];
    /// A label query that a cluster's node image must match.
    pub const RESOLVE_OS_IMAGE: &str = "run.tanzu.vmware.com/resolve-os-image";
    /// On a TanzuKubernetesCluster: the backend of the container network flannel, `vxlan` or `host-gw`.
    pub const FLANNEL_BACKEND: &str = "run.tanzu.vmware.com/flannel-backend";
    /// On a TanzuKubernetesCluster: the MTU of the nodes' network, from which flannel derives that of Pods.
    pub const FLANNEL_MTU: &str = "run.tanzu.vmware.com/flannel-mtu";
    /// On a release that is labeled incompatible because of an image: the reason that the image contains.
    pub const INCOMPATIBLE_REASON: &str = "run.tanzu.vmware.com/incompatible-reason";
    /// On an OSImage: the keepalived image in the node image.
    pub const KEEPALIVED_IMAGE: &str = "run.tanzu.vmware.com/keepalived-image";
    /// On an OSImage: the container networks in the node image that clusters can use, separated by commas.
    pub const CONTAINER_NETWORKS: &str = "run.tanzu.vmware.com/container-networks";
    /// On an OSImage: the container networks in the node image that clusters can't use, as a JSON object from name to
    /// reason.
    pub const UNUSABLE_CONTAINER_NETWORKS: &str = "run.tanzu.vmware.com/unusable-container-networks";
    /// On a TanzuKubernetesCluster: values that the requested version can't represent, kept for the conversion back.
    pub const CONVERSION_DATA: &str = "run.tanzu.vmware.com/conversion-data";
    /// On a VirtualMachine in v1alpha2: the stored spec, for the conversion back. The annotation itself is never
    /// stored.
    pub const VM_CONVERSION_DATA: &str = "vmoperator.vmware.com/conversion-data";
    /// On a Secret in a workload cluster: the ProviderServiceAccount, `NAMESPACE/NAME`, whose token it contains.
    pub const PROVIDER_SERVICE_ACCOUNT: &str = "infrastructure.cluster.vmware.com/provider-service-account";
    /// On a Machine: requests replacement by a MachineHealthCheck. Cluster API ignores the value; capw writes the cause
    /// into it.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// On a KubeadmControlPlane or MachineDeployment: digests of the settings for its machines, and of the texts
    /// rendered from them.
    pub const MACHINE_RECIPE: &str = "run.tanzu.vmware.com/machine-recipe";
}

/// Finalizer names.
pub mod finalizer {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    /// The TanzuKubernetesCluster finalizer.
    pub const TKC: &str = "tanzukubernetescluster.run.tanzu.vmware.com";
    /// Cluster API's Cluster finalizer.
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    /// Cluster API's KubeadmControlPlane finalizer.
    pub const CONTROL_PLANE: &str = "kubeadm.controlplane.cluster.x-k8s.io";
    /// The WCPCluster finalizer.
    pub const WCP_CLUSTER: &str = "wcpcluster.infrastructure.cluster.vmware.com";
    /// The WCPMachine finalizer.
    pub const WCP_MACHINE: &str = "wcpmachine.infrastructure.cluster.vmware.com";
    /// The ProviderServiceAccount finalizer.
    pub const PROVIDER_SERVICE_ACCOUNT: &str =
        "providerserviceaccount.vmware.infrastructure.cluster.x-k8s.io";
    /// The VirtualMachine finalizer.
    pub const VIRTUAL_MACHINE: &str = "virtualmachine.vmoperator.vmware.com";
    /// The VirtualMachineSetResourcePolicy finalizer.
    pub const RESOURCE_POLICY: &str = "virtualmachinesetresourcepolicy.vmoperator.vmware.com";

    /// Returns the remaining finalizers of an object that is being deleted, if they are all foreign: Layercake, Cluster
    /// API and Kubernetes have removed theirs.
    pub fn strangers(metadata: &ObjectMeta) -> Option<String> {
        metadata.deletion_timestamp.as_ref()?;
        let finalizers = metadata.finalizers.as_deref().filter(|finalizers| !finalizers.is_empty())?;
        let is_stranger = |finalizer: &String| {
            let domain = finalizer.split('/').next().unwrap_or_default();
            let known = ["cluster.x-k8s.io", "vmware.com", "vmware.infrastructure.cluster.x-k8s.io"];
            domain.contains('.') && !known.iter().any(|known| domain.ends_with(known))
        };
        finalizers.iter().all(is_stranger).then(|| finalizers.join(", "))
    }
}

/// The role label value for control plane VMs.
pub const ROLE_CONTROL_PLANE: &str = "controlplane";
/// The role label value for worker VMs.
pub const ROLE_NODE: &str = "node";
/// The vSphere tag for control plane VMs.
pub const TAG_CONTROL_PLANE: &str = "CtrlVmVmAATag";
/// The vSphere tag for worker VMs.
pub const TAG_WORKER: &str = "WorkerVmVmAATag";
/// gcm's namespace.
pub const GCM_NAMESPACE: &str = "vmware-system-tkg";
/// capw's namespace.
pub const CAPW_NAMESPACE: &str = "vmware-system-capw";
/// The namespace that contains vmop and the provider configuration.
pub const VMOP_NAMESPACE: &str = "vmware-system-vmop";
/// The API group for the infrastructure kinds of Cluster API nodes. vmop doesn't import these kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.vmware.com";
/// The cluster module for control plane VMs.
pub const CONTROL_PLANE_GROUP: &str = "control-plane-group";
/// The API server's port name.
pub const API_SERVER_PORT_NAME: &str = "apiserver";
/// The API server's port number.
pub const API_SERVER_PORT: i32 = 6443;
/// The prefix before the BIOS UUID in a providerID.
pub const PROVIDER_ID_PREFIX: &str = "vsphere://";
/// The keepalived image that `layercake image build` adds to node images. No registry serves it.
pub const KEEPALIVED_IMAGE: &str = "localhost/layercake/keepalived:debian-13";

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    #[test]
    fn only_strangers_hold_what_everybody_else_is_done_with() {
        let held = |finalizers: &[&str]| {
            let deletion_timestamp = Some(Time("2026-11-21T13:00:00Z".parse().unwrap()));
            let finalizers = Some(finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect());
            finalizer::strangers(&ObjectMeta { deletion_timestamp, finalizers, ..ObjectMeta::default() })
        };
        assert_eq!(held(&["backup.example/a", "b.example"]).as_deref(), Some("backup.example/a, b.example"));
        assert_eq!(held(&[]), None);
        let known = [
            finalizer::VIRTUAL_MACHINE,
            "machine.cluster.x-k8s.io",
            "cluster.x-k8s.io/x",
            "foregroundDeletion",
        ];
        for known in known.into_iter().chain([finalizer::PROVIDER_SERVICE_ACCOUNT, finalizer::CONTROL_PLANE])
        {
            assert_eq!(held(&["backup.example/a", known]), None, "{known}");
        }
        let there = ObjectMeta { finalizers: Some(vec!["a.example".to_owned()]), ..ObjectMeta::default() };
        assert_eq!(finalizer::strangers(&there), None, "nobody deletes it");
    }
}
