//! The kinds of the Guest Cluster Manager, group `run.tanzu.vmware.com`.
//!
//! TanzuKubernetesCluster comes in three versions. [`v1alpha3`] is stored and is what the programs
//! work with, so its types stand here under their short names; v1alpha2, with which node pools and
//! release references came, has the very same fields, and [`v1alpha1`] others.

pub mod authentication;
mod convert;
pub mod parts;
pub mod release;
pub mod remedy;
pub mod service_configuration;
pub mod v1alpha1;
pub mod v1alpha3;

pub use convert::{ConvertError, HUB, convert};
pub use release::{OSImage, OSImageSpec, TanzuKubernetesRelease, TanzuKubernetesReleaseSpec};
pub use service_configuration::{TkgServiceConfiguration, TkgServiceConfigurationSpec};
pub use v1alpha3::{TanzuKubernetesCluster, TanzuKubernetesClusterSpec, TanzuKubernetesClusterStatus};

/// The API group of TanzuKubernetesCluster, TanzuKubernetesRelease, OSImage and TkgServiceConfiguration.
pub const GROUP: &str = "run.tanzu.vmware.com";
