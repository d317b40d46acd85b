//! The kinds of the Guest Cluster Manager, API group `run.tanzu.vmware.com`.
//!
//! TanzuKubernetesCluster has three versions. [`v1alpha3`] is the stored version and the one that programs use, so its
//! types are re-exported here. v1alpha2 introduced node pools and release references and has the same fields;
//! [`v1alpha1`] has different ones.

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
