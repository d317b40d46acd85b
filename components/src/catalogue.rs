//! The components of a management cluster, in the order in which they are installed.

/// A program of a management cluster, which a Deployment runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Component {
    /// The name under which users know it.
    pub name: &'static str,
    /// Where its manifests come from.
    pub source: Source,
    /// Its namespace.
    pub namespace: &'static str,
    /// Its Deployment.
    pub deployment: &'static str,
    /// Its image.
    pub image: Image,
}

/// Where the manifests of a component come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of config/.
    Config(&'static str),
    /// Cluster API or another project of the Kubernetes community.
    Upstream {
        /// The name of its rendered manifests.
        manifests: &'static str,
        /// Its entry in the inventory of clusterctl.
        provider: Provider,
    },
}

/// An entry in the inventory of clusterctl.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name for clusterctl.
    pub name: &'static str,
    /// The type, such as `CoreProvider`.
    pub kind: &'static str,
    /// The value of label `cluster.x-k8s.io/provider`, which is also the name of the entry.
    pub label: &'static str,
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

/// Registries from which images are pulled instead of those where they are published, each with a path.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    /// That of all images.
    pub all: Option<String>,
    /// That of the images of our programs.
    pub own: Option<String>,
    /// The tag of the images of our programs, instead of their version.
    pub own_tag: Option<String>,
}

/// The version of Cluster API that is installed.
pub const CLUSTER_API: &str = "v1.14.2";
/// The version of the in-cluster IPAM provider that is installed.
pub const IPAM: &str = "v1.0.3";
/// The version of our programs.
pub const LAYERCAKE: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The manifests of clusterctl's inventory, which is no component.
pub const INVENTORY: &str = "clusterctl";

const CLUSTER_API_IMAGES: &str = "registry.k8s.io/cluster-api";
/// As release/build-images names them.
const OUR_IMAGES: &str = "localhost/layercake";

/// All components. What a component needs comes before it.
pub const COMPONENTS: [Component; 7] = [
    Component {
        name: "cluster-api",
        source: Source::Upstream {
            manifests: "capi-core",
            provider: Provider { name: "cluster-api", kind: "CoreProvider", label: "cluster-api" },
        },
        namespace: "capi-system",
        deployment: "capi-controller-manager",
        image: Image { repository: CLUSTER_API_IMAGES, name: "cluster-api-controller", tag: CLUSTER_API },
    },
    Component {
        name: "kubeadm-bootstrap",
        source: Source::Upstream {
            manifests: "capi-kubeadm-bootstrap",
            provider: Provider { name: "kubeadm", kind: "BootstrapProvider", label: "bootstrap-kubeadm" },
        },
        namespace: "capi-kubeadm-bootstrap-system",
        deployment: "capi-kubeadm-bootstrap-controller-manager",
        image: Image {
            repository: CLUSTER_API_IMAGES,
            name: "kubeadm-bootstrap-controller",
            tag: CLUSTER_API,
        },
    },
    Component {
        name: "kubeadm-control-plane",
        source: Source::Upstream {
            manifests: "capi-kubeadm-control-plane",
            provider: Provider {
                name: "kubeadm",
                kind: "ControlPlaneProvider",
                label: "control-plane-kubeadm",
            },
        },
        namespace: "capi-kubeadm-control-plane-system",
        deployment: "capi-kubeadm-control-plane-controller-manager",
        image: Image {
            repository: CLUSTER_API_IMAGES,
            name: "kubeadm-control-plane-controller",
            tag: CLUSTER_API,
        },
    },
    Component {
        name: "ipam-in-cluster",
        source: Source::Upstream {
            manifests: "capi-ipam-in-cluster",
            provider: Provider { name: "in-cluster", kind: "IPAMProvider", label: "ipam-in-cluster" },
        },
        namespace: "capi-ipam-in-cluster-system",
        deployment: "capi-ipam-in-cluster-controller-manager",
        image: Image {
            repository: "registry.k8s.io/capi-ipam-ic",
            name: "cluster-api-ipam-in-cluster-controller",
            tag: IPAM,
        },
    },
    Component {
        name: "vmop",
        source: Source::Config("vmop"),
        namespace: "vmware-system-vmop",
        deployment: "vmware-system-vmop-controller-manager",
        image: Image { repository: OUR_IMAGES, name: "vmop", tag: LAYERCAKE },
    },
    Component {
        name: "capw",
        source: Source::Config("capw"),
        namespace: "vmware-system-capw",
        deployment: "vmware-system-capw-controller-manager",
        image: Image { repository: OUR_IMAGES, name: "capw", tag: LAYERCAKE },
    },
    Component {
        name: "gcm",
        source: Source::Config("gcm"),
        namespace: "vmware-system-tkg",
        deployment: "vmware-system-tkg-controller-manager",
        image: Image { repository: OUR_IMAGES, name: "gcm", tag: LAYERCAKE },
    },
];

impl Component {
    /// Its entry in the inventory of clusterctl, if clusterctl knows it.
    pub fn provider(&self) -> Option<&Provider> {
        match &self.source {
            Source::Config(_) => None,
            Source::Upstream { provider, .. } => Some(provider),
        }
    }

    /// The reference of its image.
    pub fn image_reference(&self, registries: &Registries) -> String {
        let own = registries.own.as_deref().filter(|_| self.provider().is_none());
        self.image.reference(own.or(registries.all.as_deref()), self.tag(registries))
    }

    /// The tag of its image.
    pub fn tag<'a>(&self, registries: &'a Registries) -> &'a str {
        registries.own_tag.as_deref().filter(|_| self.provider().is_none()).unwrap_or(self.image.tag)
    }

    /// Its version.
    pub fn version(&self) -> &'static str {
        self.image.tag
    }
}

impl Image {
    /// The reference of the image with a tag, in `registry` if one is given.
    fn reference(&self, registry: Option<&str>, tag: &str) -> String {
        let repository = registry.map_or(self.repository, |registry| registry.trim_end_matches('/'));
        format!("{repository}/{}:{tag}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_from_the_registries_that_are_given() {
        let references = |all: Option<&str>, own: Option<&str>| {
            let registries =
                Registries { all: all.map(str::to_owned), own: own.map(str::to_owned), own_tag: None };
            COMPONENTS.iter().map(|one| one.image_reference(&registries)).collect::<Vec<_>>()
        };
        let published = references(None, None);
        assert_eq!(published[0], format!("registry.k8s.io/cluster-api/cluster-api-controller:{CLUSTER_API}"));
        assert_eq!(published[6], format!("localhost/layercake/gcm:{LAYERCAKE}"));
        let own = references(None, Some("registry.example.com/layercake/"));
        assert_eq!(own[..4], published[..4]);
        assert_eq!(own[6], format!("registry.example.com/layercake/gcm:{LAYERCAKE}"));
        let tagged = Registries { own_tag: Some("v9".to_owned()), ..Registries::default() };
        assert_eq!(COMPONENTS[6].image_reference(&tagged), "localhost/layercake/gcm:v9");
        assert_eq!(COMPONENTS[0].tag(&tagged), CLUSTER_API);
        let all = references(Some("mirror.example.com/all"), None);
        assert!(all.iter().all(|image| image.starts_with("mirror.example.com/all/")), "{all:?}");
    }
}
