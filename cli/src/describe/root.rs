//! The object at the top of the tree.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    #[default]
    TanzuKubernetesCluster,
    /// A Cluster API Cluster.
    Cluster,
    VirtualMachine,
}

impl Root {
    pub fn kind(self) -> &'static str {
        match self {
            Self::TanzuKubernetesCluster => "TanzuKubernetesCluster",
            Self::Cluster => "Cluster",
            Self::VirtualMachine => "VirtualMachine",
        }
    }

    /// Returns the resource name for kubectl.
    pub fn resource(self) -> &'static str {
        match self {
            Self::TanzuKubernetesCluster => "tkc",
            Self::Cluster => "clusters.cluster.x-k8s.io",
            Self::VirtualMachine => "virtualmachines",
        }
    }
}
