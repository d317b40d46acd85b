//! Names: labels, annotations, finalizers, and the objects of a cluster.

mod objects;

pub use objects::*;

/// The longest name of a machine, and of whatever becomes a label value or a Service: it is a DNS label.
pub const MAX_MACHINE_NAME: usize = 63;

/// The OVF properties by which a node image of image-builder says what is in it.
pub mod image_builder {
    /// The version of Kubernetes, such as `v1.33.1`; an image that has it is a node image.
    pub const KUBERNETES_SEMVER: &str = "KUBERNETES_SEMVER";
    /// Such as `ubuntu`.
    pub const DISTRO_NAME: &str = "DISTRO_NAME";
    /// Such as `24.04`.
    pub const DISTRO_VERSION: &str = "DISTRO_VERSION";
    /// Such as `amd64`.
    pub const DISTRO_ARCH: &str = "DISTRO_ARCH";
    /// All that are kept of such an image.
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

/// Labels.
pub mod label {
    /// The Cluster an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Which of several instances of a controller acts on the object.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Present on what belongs to a control plane.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// The MachineDeployment an object belongs to.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// The cluster a virtual machine belongs to.
    pub const CAPW_CLUSTER_NAME: &str = "capw.vmware.com/cluster.name";
    /// What a virtual machine is in its cluster: [`super::ROLE_CONTROL_PLANE`] or [`super::ROLE_NODE`].
    pub const CAPW_CLUSTER_ROLE: &str = "capw.vmware.com/cluster.role";
    /// As [`CAPW_CLUSTER_NAME`], under the successor's name.
    pub const CAPV_CLUSTER_NAME: &str = "capv.vmware.com/cluster.name";
    /// As [`CAPW_CLUSTER_ROLE`], under the successor's name.
    pub const CAPV_CLUSTER_ROLE: &str = "capv.vmware.com/cluster.role";
    /// The release of a cluster, on TanzuKubernetesCluster and Cluster.
    pub const TKR: &str = "run.tanzu.vmware.com/tkr";
    /// The release of a node, on Nodes; `+` is written `_`.
    pub const KUBERNETES_DISTRIBUTION_VERSION: &str = "run.tanzu.vmware.com/kubernetesDistributionVersion";
    /// The node pool an object belongs to.
    pub const NODE_POOL: &str = "run.tanzu.vmware.com/node-pool";
    /// A release that does not fit this installation.
    pub const INCOMPATIBLE: &str = "run.tanzu.vmware.com/incompatible";
    /// On a TanzuKubernetesCluster: it shall give its Cluster away. Not supported.
    pub const RETIRE_TKC: &str = "kubernetes.vmware.com/retire-tkc";
    /// A release that was taken out of use.
    pub const DEACTIVATED: &str = "run.tanzu.vmware.com/deactivated";
    /// A release that is gone.
    pub const DELETED: &str = "run.tanzu.vmware.com/deleted";
    /// A release whose data makes no sense.
    pub const INVALID: &str = "run.tanzu.vmware.com/invalid";
    /// A release whose images disagree about it.
    pub const CONFLICTING_OS_IMAGES: &str = "run.tanzu.vmware.com/conflicting-os-images";
    /// On a ContentSource, `true`: its library's node images become releases. On a VirtualMachineImage: whether it is of such
    /// a library.
    pub const RELEASE_LIBRARY: &str = "run.tanzu.vmware.com/release-library";
    /// On a VirtualMachineImage that was published: the uid of the VirtualMachinePublishRequest.
    pub const PUBLISH_REQUEST: &str = "vmoperator.vmware.com/publish-request-uid";
    /// A release without packages.
    pub const LEGACY_TKR: &str = "run.tanzu.vmware.com/legacy-tkr";
    /// The zone a virtual machine or node lies in.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// By which the validator of web consoles knows a request.
    pub const UUID: &str = "vmoperator.vmware.com/webconsolerequest-uuid";
    /// On claims that VM Operator made of a host's own storage.
    pub const INSTANCE_STORAGE: &str = "vmoperator.vmware.com/instance-storage-resource";
    /// On a CRD: which of its versions keep Cluster API's contract v1beta2.
    pub const CONTRACT_V1BETA2: &str = "cluster.x-k8s.io/v1beta2";
    /// On a virtual machine that VM Operator leaves alone: who asked for it, `devops`, `admin` or `both`.
    pub const VMOP_PAUSED: &str = "vmoperator.vmware.com/paused";
    /// The provider an object of the installation belongs to.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// Whose objects `clusterctl` looks at.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// A content source that VMs may be published to: `true`.
    pub const WRITABLE: &str = "vmoperator.vmware.com/writable";
    /// What `clusterctl move` moves by itself.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// What `clusterctl move` moves with everything it owns.
    pub const CLUSTERCTL_MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
    /// On a ConfigMap: the add-on whose bundle it is.
    pub const ADDON_NAME: &str = "tkg.tanzu.vmware.com/addon-name";
    /// On a ConfigMap with a bundle: the only cluster that it is for.
    pub const ADDON_CLUSTER_NAME: &str = "tkg.tanzu.vmware.com/cluster-name";
}

/// Annotations.
pub mod annotation {
    /// On a ConfigMap with a bundle: what the add-on is for, `cni` say.
    pub const ADDON_TYPE: &str = "tkg.tanzu.vmware.com/addon-type";
    /// On a ConfigMap with the bundle of a storage driver: `none` if it has the storage classes of its cluster, which gets none of its namespace.
    pub const STORAGE_CLASSES: &str = "run.tanzu.vmware.com/storage-classes";
    /// Nobody acts on the object.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// The object is deleted here because it was moved: what it stands for stays.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// The object must not be moved yet.
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
    /// Somebody else provides this infrastructure.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// The cluster module a virtual machine is a member of.
    pub const CLUSTER_MODULE_GROUP: &str = "vsphere-cluster-module-group";
    /// What was made in vCenter for a resource policy, by ids. Only administrators and VM Operator may write it.
    pub const RESOURCE_POLICY_LEDGER: &str = "vmoperator.vmware.com/cluster-modules";
    /// The vSphere tag a virtual machine carries.
    pub const VSPHERE_TAG: &str = "vsphere-tag";
    /// The annotations by which programs know what they did or are to do, on objects of namespaces. Caches keep them whatever
    /// else an object bears.
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
        PROVIDER_SERVICE_ACCOUNT,
        REMEDIATE_MACHINE,
        MACHINE_RECIPE,
    ];
    /// What annotations begin with that only administrators may set: conditions of theirs, and gates.
    pub const PROTECTED_PREFIXES: &[&str] = &[PROTECTED_CONDITION, POWER_ON_CHECK, DELETE_CHECK];
    /// The virtual machine existed once: it is never made again.
    pub const FIRST_BOOT_DONE: &str = "virtualmachine.vmoperator.vmware.com/first-boot-done";
    /// The virtual machine's own disks, by UUID and file: what is destroyed with it.
    pub const DISKS: &str = "virtualmachine.vmoperator.vmware.com/disks";
    /// VM Operator leaves the virtual machine alone.
    pub const VMOP_PAUSE: &str = "vmoperator.vmware.com/pause-reconcile";
    /// As [`VMOP_PAUSE`], under its later name.
    pub const VMOP_PAUSED: &str = "vmoperator.vmware.com/paused";
    /// The class that the virtual machine was last sized by: `{"name":…}`.
    pub const LAST_RESIZED_CLASS: &str = "vmoperator.vmware.com/last-resized-vm-class";
    /// The virtual machine follows changes of its class, not only to another class.
    pub const SAME_CLASS_RESIZE: &str = "vmoperator.vmware.com/same-vm-class-resize";
    /// The guest was asked to shut down or to stand by: the power state, and since when.
    pub const SOFT_POWER: &str = "virtualmachine.vmoperator.vmware.com/soft-power";
    /// What stands before the names of checks that hold a virtual machine's power-on back.
    pub const POWER_ON_CHECK: &str = "poweron.check.vmoperator.vmware.com/";
    /// What stands before the names of checks that hold a virtual machine's deletion back.
    pub const DELETE_CHECK: &str = "delete.check.vmoperator.vmware.com/";
    /// What stands before the types of conditions that an admin adds: `Type;status;reason;message`.
    pub const PROTECTED_CONDITION: &str = "condition.vmoperator.vmware.com.protected/";
    /// The instance-id that cloud-init gets, instead of the machine's BIOS UUID.
    pub const CLOUD_INIT_INSTANCE_ID: &str = "vmoperator.vmware.com/cloud-init-instance-id";
    /// How cloud-init gets its data: `guestinfo`, or `cloudinitprep` by vCenter's guest customization.
    pub const CLOUDINIT_TYPE: &str = "vmoperator.vmware.com/cloudinit-type";
    /// `disable` keeps vCenter's guest customization away from the guest.
    pub const VSPHERE_CUSTOMIZATION: &str = "vmoperator.vmware.com/vsphere-customization";
    /// `bios` or `efi`, instead of the image's firmware.
    pub const FIRMWARE: &str = "vmoperator.vmware.com/firmware";
    /// GiB of 64-bit memory-mapped I/O for devices that are passed through; `0` leaves the guest without.
    pub const MMIO_SIZE: &str = "vmoperator.vmware.com/pci-passthru-64bit-mmio-size";
    /// The virtual machine that an attachment of a volume was made for.
    pub const VIRTUAL_MACHINE: &str = "vmoperator.vmware.com/virtualmachine";
    /// A machine that names no network adapter gets none.
    pub const NO_DEFAULT_NIC: &str = "vmoperator.vmware.com/no-default-nic";
    /// The host of a cluster's control plane endpoint. On a control plane VirtualMachine, VM Operator records it in vCenter. On a resource
    /// policy, it is about to be used, and VM Operator looks up which VMs have it.
    pub const CONTROL_PLANE_ENDPOINT: &str = "capw.vmware.com/control-plane-endpoint";
    /// On a WCPCluster and its control plane VirtualMachines: the number of the virtual router (VRRP) that holds the control plane's
    /// address, 1 to 255.
    pub const VIRTUAL_ROUTER: &str = "capw.vmware.com/virtual-router-id";
    /// The resource pool of a namespace, by vCenter's identity of it.
    pub const NAMESPACE_RESOURCE_POOL: &str = "vmware-system-resource-pool";
    /// The folder of a namespace, by vCenter's identity of it.
    pub const NAMESPACE_FOLDER: &str = "vmware-system-vm-folder";
    /// The networks of vCenter that VMs of a namespace may name, by name or MoID, divided by commas; `*` stands for all.
    pub const NAMESPACE_NETWORKS: &str = "vmware-system-networks";
    /// The VirtualNetwork a load balancer belongs to.
    pub const NCP_VIRTUAL_NETWORK: &str = "ncp.vmware.com/virtual-network-name";
    /// What a release must be like: a label query.
    pub const RESOLVE_TKR: &str = "run.tanzu.vmware.com/resolve-tkr";
    /// The fewest machines that a cluster autoscaler may leave of a pool.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// The most machines that a cluster autoscaler may make of a pool.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// Labels of the nodes of a pool, for a cluster autoscaler that finds none: `a=b,c=d`.
    pub const AUTOSCALER_LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
    /// Taints of the nodes of a pool, for a cluster autoscaler that finds none: `key=value:effect,key:effect`.
    pub const AUTOSCALER_TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";
    /// `true`: an upgrade may go over several minor releases, one after the other.
    pub const UPGRADE_IN_STEPS: &str = "run.tanzu.vmware.com/upgrade-in-steps";
    /// On a TanzuKubernetesCluster: the uid under which its cluster was made. A copy elsewhere, as `clusterctl move` makes one,
    /// has another, and waits for its Cluster.
    pub const MADE_AS: &str = "run.tanzu.vmware.com/made-as";
    /// On a TanzuKubernetesCluster: what its API servers do that those of earlier versions do not, noted before anything is
    /// created for it: `audit,encryption`. Only gcm can set it.
    pub const API_SERVER: &str = "run.tanzu.vmware.com/api-server";
    /// On a TanzuKubernetesCluster: an id of its cluster that outlives moves to other management clusters, where objects get other
    /// uids. Only gcm can set it.
    pub const CLUSTER_ID: &str = "run.tanzu.vmware.com/cluster-id";
    /// What gcm notes on a TanzuKubernetesCluster once. The policy `vmware-system-tkg-records` has the same names.
    pub const RECORDS: &[&str] = &[API_SERVER, CLUSTER_ID];
    /// What a node image must be like: a label query.
    pub const RESOLVE_OS_IMAGE: &str = "run.tanzu.vmware.com/resolve-os-image";
    /// On a release that is labelled incompatible because of an image: what the image says.
    pub const INCOMPATIBLE_REASON: &str = "run.tanzu.vmware.com/incompatible-reason";
    /// On an OSImage: the image of keepalived that the node image contains.
    pub const KEEPALIVED_IMAGE: &str = "run.tanzu.vmware.com/keepalived-image";
    /// On an OSImage: the container networks of the node image that a cluster can apply, divided by commas.
    pub const CONTAINER_NETWORKS: &str = "run.tanzu.vmware.com/container-networks";
    /// On an OSImage: the container networks of the node image that no cluster can apply, each with the reason, as a JSON object.
    pub const UNUSABLE_CONTAINER_NETWORKS: &str = "run.tanzu.vmware.com/unusable-container-networks";
    /// What a version of TanzuKubernetesCluster cannot show, kept for the way back.
    pub const CONVERSION_DATA: &str = "run.tanzu.vmware.com/conversion-data";
    /// On a VirtualMachine in v1alpha2: its spec as it is stored, for the way back. It is never stored itself.
    pub const VM_CONVERSION_DATA: &str = "vmoperator.vmware.com/conversion-data";
    /// On a guest's Secret: the ProviderServiceAccount, `NAMESPACE/NAME`, whose token it holds.
    pub const PROVIDER_SERVICE_ACCOUNT: &str = "infrastructure.cluster.vmware.com/provider-service-account";
    /// On a Machine: a MachineHealthCheck replaces it. Cluster API ignores the value; capw writes the cause.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// On a KubeadmControlPlane or MachineDeployment: digests of what its machines were asked to be, and of the texts
    /// that this came to.
    pub const MACHINE_RECIPE: &str = "run.tanzu.vmware.com/machine-recipe";
}

/// Finalizers.
pub mod finalizer {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    /// Of a TanzuKubernetesCluster.
    pub const TKC: &str = "tanzukubernetescluster.run.tanzu.vmware.com";
    /// Cluster API's, of a Cluster.
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    /// Cluster API's, of a KubeadmControlPlane.
    pub const CONTROL_PLANE: &str = "kubeadm.controlplane.cluster.x-k8s.io";
    /// Of a WCPCluster.
    pub const WCP_CLUSTER: &str = "wcpcluster.infrastructure.cluster.vmware.com";
    /// Of a WCPMachine.
    pub const WCP_MACHINE: &str = "wcpmachine.infrastructure.cluster.vmware.com";
    /// Of a ProviderServiceAccount.
    pub const PROVIDER_SERVICE_ACCOUNT: &str =
        "providerserviceaccount.vmware.infrastructure.cluster.x-k8s.io";
    /// Of a VirtualMachine.
    pub const VIRTUAL_MACHINE: &str = "virtualmachine.vmoperator.vmware.com";
    /// Of a VirtualMachineSetResourcePolicy.
    pub const RESOURCE_POLICY: &str = "virtualmachinesetresourcepolicy.vmoperator.vmware.com";

    /// The finalizers that hold an object which is to go, if they are all strangers': neither ours nor Cluster API's nor
    /// Kubernetes' own. Whoever else had one has done what it waited for.
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

/// The role of a control plane's virtual machine.
pub const ROLE_CONTROL_PLANE: &str = "controlplane";
/// The role of a worker's virtual machine.
pub const ROLE_NODE: &str = "node";
/// The tag of a control plane's virtual machine.
pub const TAG_CONTROL_PLANE: &str = "CtrlVmVmAATag";
/// The tag of a worker's virtual machine.
pub const TAG_WORKER: &str = "WorkerVmVmAATag";
/// The namespace of gcm.
pub const GCM_NAMESPACE: &str = "vmware-system-tkg";
/// The namespace of capw.
pub const CAPW_NAMESPACE: &str = "vmware-system-capw";
/// The namespace of vmop. The provider configuration is there, too.
pub const VMOP_NAMESPACE: &str = "vmware-system-vmop";
/// The API group of the kinds from which Cluster API's nodes are made. vmop knows none of these kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.vmware.com";
/// The cluster module of a control plane.
pub const CONTROL_PLANE_GROUP: &str = "control-plane-group";
/// The name of the API server's port.
pub const API_SERVER_PORT_NAME: &str = "apiserver";
/// The API server's port.
pub const API_SERVER_PORT: i32 = 6443;
/// What stands before the UUID in a providerID.
pub const PROVIDER_ID_PREFIX: &str = "vsphere://";
/// keepalived's image, which node images of `layercake image build` contain. It is in no registry.
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
