//! The management cluster components, in installation order.

use crate::memory::Memory;

/// A program that a Deployment runs in a management cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct Component {
    /// The component name for users.
    pub name: &'static str,
    pub source: ManifestSource,
    /// The value of label `cluster.x-k8s.io/provider` if clusterctl knows the component as a provider. For upstream components,
    /// it is also the name of the component's entry in clusterctl's inventory.
    pub provider_label: Option<&'static str>,
    pub namespace: &'static str,
    pub deployment: &'static str,
    pub image: Image,
    /// The default memory request and limit.
    pub memory: Memory,
}

/// The source of a component's manifests.
#[derive(Debug, PartialEq, Eq)]
pub enum ManifestSource {
    /// A folder in config/.
    Config(&'static str),
    /// Cluster API or another Kubernetes community project.
    Upstream {
        /// The folder in config/upstream.
        manifests: &'static str,
        /// The provider's name and type in clusterctl's inventory, such as `kubeadm` and `BootstrapProvider`.
        provider: (&'static str, &'static str),
        /// The oldest version that works with Layercake's programs. If another tool has installed the component, it must be
        /// this version or a later one.
        oldest: &'static str,
    },
}

/// A container image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// The registry and the path, without the last path segment.
    pub repository: &'static str,
    /// The last path segment.
    pub name: &'static str,
    pub tag: &'static str,
}

/// Registries and tags that replace the published ones. A registry can include a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registries {
    /// The registry for images from upstream projects.
    pub upstream: Option<String>,
    /// The registry for the gcm, capw and vmop images.
    pub own: Option<String>,
    /// The tag for the gcm, capw and vmop images.
    pub own_tag: Option<String>,
}

/// The Cluster API version that is installed.
pub const CLUSTER_API: &str = "v1.14.2";
/// The in-cluster IPAM provider version that is installed.
pub const IPAM: &str = "v1.0.3";
/// The oldest Cluster API version that serves its kinds as v1beta2.
const OLDEST_CLUSTER_API: &str = "v1.11.0";
/// The oldest in-cluster IPAM provider with the tested major version.
const OLDEST_IPAM: &str = "v1.0.0";
/// The version of gcm, capw and vmop.
pub const LAYERCAKE: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The folder in config/upstream with the CRD of clusterctl's inventory. The inventory isn't a component.
pub const INVENTORY: &str = "clusterctl";

const CLUSTER_API_IMAGES: &str = "registry.k8s.io/cluster-api";
/// The repository of Layercake's images, as in release/build-images.
pub const OUR_IMAGES: &str = "localhost/layercake";

/// The core manager's memory for 500 workload clusters. The manager uses 110 MiB, and 1.4 MiB for each cluster
/// (docs/contributing/performance.md).
const CORE_MEMORY: Memory = Memory { request_mib: 128, limit_mib: 2048 };
/// The memory for the other managers that connect to workload clusters. They use at most half as much as the core manager.
const MANAGER_MEMORY: Memory = Memory { request_mib: 128, limit_mib: 1024 };
/// The IPAM provider's memory. The provider only reads the management cluster. Upstream's limit is 128 MiB.
const IPAM_MEMORY: Memory = Memory { request_mib: 64, limit_mib: 256 };
/// The memory for Layercake's programs, as in config/.
const OWN_MEMORY: Memory = Memory { request_mib: 32, limit_mib: 256 };

const fn of_cluster_api(manifests: &'static str, provider: (&'static str, &'static str)) -> ManifestSource {
    ManifestSource::Upstream { manifests, provider, oldest: OLDEST_CLUSTER_API }
}

const fn cluster_api_image(name: &'static str) -> Image {
    Image { repository: CLUSTER_API_IMAGES, name, tag: CLUSTER_API }
}

const fn own_image(name: &'static str) -> Image {
    Image { repository: OUR_IMAGES, name, tag: LAYERCAKE }
}

/// All components. Each component follows the components that it needs.
pub static COMPONENTS: [Component; 7] = [
    Component {
        name: "cluster-api",
        source: of_cluster_api("capi-core", ("cluster-api", "CoreProvider")),
        provider_label: Some("cluster-api"),
        namespace: "capi-system",
        deployment: "capi-controller-manager",
        image: cluster_api_image("cluster-api-controller"),
        memory: CORE_MEMORY,
    },
    Component {
        name: "kubeadm-bootstrap",
        source: of_cluster_api("capi-kubeadm-bootstrap", ("kubeadm", "BootstrapProvider")),
        provider_label: Some("bootstrap-kubeadm"),
        namespace: "capi-kubeadm-bootstrap-system",
        deployment: "capi-kubeadm-bootstrap-controller-manager",
        image: cluster_api_image("kubeadm-bootstrap-controller"),
        memory: MANAGER_MEMORY,
    },
    Component {
        name: "kubeadm-control-plane",
        source: of_cluster_api("capi-kubeadm-control-plane", ("kubeadm", "ControlPlaneProvider")),
        provider_label: Some("control-plane-kubeadm"),
        namespace: "capi-kubeadm-control-plane-system",
        deployment: "capi-kubeadm-control-plane-controller-manager",
        image: cluster_api_image("kubeadm-control-plane-controller"),
        memory: MANAGER_MEMORY,
    },
    Component {
        name: "ipam-in-cluster",
        source: ManifestSource::Upstream {
            manifests: "capi-ipam-in-cluster",
            provider: ("in-cluster", "IPAMProvider"),
            oldest: OLDEST_IPAM,
        },
        provider_label: Some("ipam-in-cluster"),
        namespace: "capi-ipam-in-cluster-system",
        deployment: "capi-ipam-in-cluster-controller-manager",
        image: Image {
            repository: "registry.k8s.io/capi-ipam-ic",
            name: "cluster-api-ipam-in-cluster-controller",
            tag: IPAM,
        },
        memory: IPAM_MEMORY,
    },
    Component {
        name: "vmop",
        source: ManifestSource::Config("vmop"),
        provider_label: Some("runtime-extension-vm-operator"),
        namespace: "vmware-system-vmop",
        deployment: "vmware-system-vmop-controller-manager",
        image: own_image("vmop"),
        memory: OWN_MEMORY,
    },
    Component {
        name: "capw",
        source: ManifestSource::Config("capw"),
        provider_label: Some("infrastructure-wcp"),
        namespace: "vmware-system-capw",
        deployment: "vmware-system-capw-controller-manager",
        image: own_image("capw"),
        memory: OWN_MEMORY,
    },
    Component {
        name: "gcm",
        source: ManifestSource::Config("gcm"),
        provider_label: None,
        namespace: "vmware-system-tkg",
        deployment: "vmware-system-tkg-controller-manager",
        image: own_image("gcm"),
        memory: OWN_MEMORY,
    },
];

impl Component {
    /// Returns true if the component comes from an upstream project.
    pub fn is_upstream(&self) -> bool {
        matches!(self.source, ManifestSource::Upstream { .. })
    }

    /// Returns true if the manager connects to workload clusters, through a [proxy](crate::guest_proxy).
    pub fn uses_guest_proxy(&self) -> bool {
        matches!(self.name, "cluster-api" | "kubeadm-bootstrap" | "kubeadm-control-plane")
    }

    /// Returns the reference of the component's image, with `registries` in place of the published ones.
    pub fn image_reference(&self, registries: &Registries) -> String {
        let registry = if self.is_upstream() { &registries.upstream } else { &registries.own };
        let repository = registry.as_deref().unwrap_or(self.image.repository).trim_end_matches('/');
        format!("{repository}/{}:{}", self.image.name, self.tag(registries))
    }

    /// Returns the image tag. For Layercake's programs, a tag in `registries` replaces the default tag.
    pub fn tag<'a>(&self, registries: &'a Registries) -> &'a str {
        registries.own_tag.as_deref().filter(|_| !self.is_upstream()).unwrap_or(self.image.tag)
    }

    /// Returns the component with this manifest name: a folder in config/ or config/upstream.
    pub fn of_manifests(name: &str) -> Option<&'static Self> {
        COMPONENTS.iter().find(|component| match component.source {
            ManifestSource::Config(manifests) | ManifestSource::Upstream { manifests, .. } => {
                manifests == name
            }
        })
    }

    /// Returns the component with this name, or `None` if there isn't one.
    pub fn find(name: &str) -> Option<&'static Self> {
        COMPONENTS.iter().find(|component| component.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_from_the_registries_that_are_given() {
        let references = |registries: &Registries| {
            COMPONENTS.iter().map(|one| one.image_reference(registries)).collect::<Vec<_>>()
        };
        let published = references(&Registries::default());
        assert_eq!(published[0], format!("registry.k8s.io/cluster-api/cluster-api-controller:{CLUSTER_API}"));
        assert_eq!(published[6], format!("localhost/layercake/gcm:{LAYERCAKE}"));
        let own = Registries { own: Some("registry.example.com/l/".to_owned()), ..Registries::default() };
        let own = references(&own);
        assert_eq!(own[..4], published[..4]);
        assert_eq!(own[6], format!("registry.example.com/l/gcm:{LAYERCAKE}"));
        let tagged = Registries { own_tag: Some("v9".to_owned()), ..Registries::default() };
        assert_eq!(references(&tagged)[6], "localhost/layercake/gcm:v9");
        assert_eq!(references(&tagged)[..4], published[..4]);
        let upstream =
            Registries { upstream: Some("mirror.example.com".to_owned()), ..Registries::default() };
        assert!(references(&upstream)[..4].iter().all(|image| image.starts_with("mirror.example.com/")));
        assert_eq!(references(&upstream)[4..], published[4..]);
    }
}
