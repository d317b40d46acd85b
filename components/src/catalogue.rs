//! The components of a management cluster, in the order in which they are installed.

use crate::memory::Memory;

/// A program of a management cluster, which a Deployment runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Component {
    /// The name under which users know it.
    pub name: &'static str,
    /// The source of its manifests.
    pub source: Source,
    /// The value of label `cluster.x-k8s.io/provider` if clusterctl installs it, which is also the name of its entry in the
    /// inventory of clusterctl.
    pub provider_label: Option<&'static str>,
    /// Its namespace.
    pub namespace: &'static str,
    /// Its Deployment.
    pub deployment: &'static str,
    /// Its image.
    pub image: Image,
    /// Its memory by default.
    pub memory: Memory,
}

/// The source of the manifests of a component.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of config/.
    Config(&'static str),
    /// Cluster API or another project of the Kubernetes community.
    Upstream {
        /// The name of its rendered manifests.
        manifests: &'static str,
        /// The name and the type of the provider in the inventory of clusterctl, such as `kubeadm` and `BootstrapProvider`.
        provider: (&'static str, &'static str),
        /// The oldest version with which the programs work. An installation by another tool must have it or a later one.
        oldest: &'static str,
    },
}

/// A container image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// The registry and the path, without the last part.
    pub repository: &'static str,
    /// The last part of the path.
    pub name: &'static str,
    /// The tag.
    pub tag: &'static str,
}

/// The registries and tags of images that differ from the published ones. A registry includes a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registries {
    /// The registry of the images of upstream projects.
    pub upstream: Option<String>,
    /// The registry of the images of gcm, capw and vmop.
    pub own: Option<String>,
    /// The tag of the images of gcm, capw and vmop.
    pub own_tag: Option<String>,
}

/// The version of Cluster API that is installed.
pub const CLUSTER_API: &str = "v1.14.2";
/// The version of the in-cluster IPAM provider that is installed.
pub const IPAM: &str = "v1.0.3";
/// The oldest Cluster API that serves its kinds in version v1beta2.
const OLDEST_CLUSTER_API: &str = "v1.11.0";
/// The oldest in-cluster IPAM provider of the major version that is tested.
const OLDEST_IPAM: &str = "v1.0.0";
/// The version of gcm, capw and vmop.
pub const LAYERCAKE: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The manifests of clusterctl's inventory, which is no component.
pub const INVENTORY: &str = "clusterctl";

const CLUSTER_API_IMAGES: &str = "registry.k8s.io/cluster-api";
/// As release/build-images names them.
const OUR_IMAGES: &str = "localhost/layercake";

/// For 500 workload clusters: it uses 110 MiB, and 1.4 MiB for each cluster (docs/contributing/performance.md).
const CORE_MEMORY: Memory = Memory { request_mib: 128, limit_mib: 2048 };
/// The other managers that connect to workload clusters use half of that or less.
const MANAGER_MEMORY: Memory = Memory { request_mib: 128, limit_mib: 1024 };
/// The IPAM provider reads the management cluster only. Upstream's limit is 128 MiB.
const IPAM_MEMORY: Memory = Memory { request_mib: 64, limit_mib: 256 };
/// As in config/.
const OWN_MEMORY: Memory = Memory { request_mib: 32, limit_mib: 256 };

const fn of_cluster_api(manifests: &'static str, provider: (&'static str, &'static str)) -> Source {
    Source::Upstream { manifests, provider, oldest: OLDEST_CLUSTER_API }
}

const fn cluster_api_image(name: &'static str) -> Image {
    Image { repository: CLUSTER_API_IMAGES, name, tag: CLUSTER_API }
}

const fn own_image(name: &'static str) -> Image {
    Image { repository: OUR_IMAGES, name, tag: LAYERCAKE }
}

/// All components. What a component needs comes before it.
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
        source: Source::Upstream {
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
        source: Source::Config("vmop"),
        provider_label: Some("runtime-extension-vm-operator"),
        namespace: "vmware-system-vmop",
        deployment: "vmware-system-vmop-controller-manager",
        image: own_image("vmop"),
        memory: OWN_MEMORY,
    },
    Component {
        name: "capw",
        source: Source::Config("capw"),
        provider_label: Some("infrastructure-wcp"),
        namespace: "vmware-system-capw",
        deployment: "vmware-system-capw-controller-manager",
        image: own_image("capw"),
        memory: OWN_MEMORY,
    },
    Component {
        name: "gcm",
        source: Source::Config("gcm"),
        provider_label: None,
        namespace: "vmware-system-tkg",
        deployment: "vmware-system-tkg-controller-manager",
        image: own_image("gcm"),
        memory: OWN_MEMORY,
    },
];

impl Component {
    /// Returns true for a component of an upstream project.
    pub fn is_upstream(&self) -> bool {
        matches!(self.source, Source::Upstream { .. })
    }

    /// Returns true for a manager that connects to workload clusters, through a [proxy](crate::guest_proxy).
    pub fn uses_guest_proxy(&self) -> bool {
        matches!(self.name, "cluster-api" | "kubeadm-bootstrap" | "kubeadm-control-plane")
    }

    /// The reference of its image.
    pub fn image_reference(&self, registries: &Registries) -> String {
        let registry = if self.is_upstream() { &registries.upstream } else { &registries.own };
        let repository = registry.as_deref().unwrap_or(self.image.repository).trim_end_matches('/');
        format!("{repository}/{}:{}", self.image.name, self.tag(registries))
    }

    /// The tag of its image.
    pub fn tag<'a>(&self, registries: &'a Registries) -> &'a str {
        registries.own_tag.as_deref().filter(|_| !self.is_upstream()).unwrap_or(self.image.tag)
    }

    /// The component whose manifests have this name: the folder in config/, or upstream's rendered manifests.
    pub fn of_manifests(name: &str) -> Option<&'static Self> {
        COMPONENTS.iter().find(|component| match component.source {
            Source::Config(manifests) | Source::Upstream { manifests, .. } => manifests == name,
        })
    }

    /// The component of this name.
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
