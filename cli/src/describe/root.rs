//! The object whose tree is shown.

/// The object at the top of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// A TanzuKubernetesCluster.
    #[default]
    TanzuKubernetesCluster,
    /// A Cluster of Cluster API.
    Cluster,
    /// A VirtualMachine.
    VirtualMachine,
}

impl Root {
    /// Its kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::TanzuKubernetesCluster => "TanzuKubernetesCluster",
            Self::Cluster => "Cluster",
            Self::VirtualMachine => "VirtualMachine",
        }
    }

    /// The resource, as kubectl takes it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::TanzuKubernetesCluster => "tkc",
            Self::Cluster => "clusters.cluster.x-k8s.io",
            Self::VirtualMachine => "virtualmachines",
        }
    }
}
