//! The flags for `convert`.

use std::path::PathBuf;

use clap::{Arg, Args};

use super::clusters::ApplyFlags;

/// Flags of `convert`.
#[derive(Clone, Debug, Args)]
#[command(mut_args(restrict))]
pub struct Convert {
    /// The cluster configuration file of Tanzu Kubernetes Grid; `-` is standard input.
    pub config: PathBuf,
    /// Also apply the manifest, and show the cluster's progress until it is running. Flags that don't belong to the
    /// conversion require this flag, and work as in `layercake apply`.
    #[arg(long)]
    pub apply: bool,
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
    /// The flags for `--apply`.
    #[command(flatten)]
    pub flags: ApplyFlags,
}

/// The arguments for the conversion. All other arguments require `--apply`.
const CONVERSION: [&str; 6] = ["config", "apply", "namespace", "release", "vm_class", "storage_class"];

/// Makes an argument that `apply` defines require `--apply`, and gives the namespace the default of a conversion.
fn restrict(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "namespace" => arg.help("The namespace; by default NAMESPACE in the file"),
        id if CONVERSION.contains(&id) => arg,
        _ => arg.requires("apply"),
    }
}
