//! The flags for `convert`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `convert`.
#[derive(Clone, Debug, Args)]
pub struct Convert {
    /// The cluster configuration file of Tanzu Kubernetes Grid; `-` is standard input.
    pub config: PathBuf,
    /// The namespace; by default NAMESPACE in the file.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The TanzuKubernetesRelease, or the beginning of its name; by default KUBERNETES_RELEASE in the file, then
    /// KUBERNETES_VERSION.
    #[arg(long, value_name = "NAME")]
    pub release: Option<String>,
    /// The VM class of all nodes; by default CONTROL_PLANE_VM_CLASS and WORKER_VM_CLASS in the file.
    #[arg(long, value_name = "NAME")]
    pub vm_class: Option<String>,
    /// The storage class of all nodes; by default CONTROL_PLANE_STORAGE_CLASS and WORKER_STORAGE_CLASS in the file.
    #[arg(long, value_name = "NAME")]
    pub storage_class: Option<String>,
}
