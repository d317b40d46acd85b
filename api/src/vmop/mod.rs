//! The kinds of VM Operator: API group `vmoperator.vmware.com/v1alpha1`, and VirtualMachine also in [`v1alpha2`].

mod class;
mod class_sizes;
mod console;
mod content;
mod convert;
mod image;
mod machine;
mod policy;
mod provider;
mod publish;
mod service;
pub mod v1alpha2;

pub use class::*;
pub use class_sizes::{LARGEST_DISK_MIB, SizeFault, size_faults};
pub use console::*;
pub use content::*;
pub use convert::{ConvertError, convert};
pub use image::*;
pub use machine::*;
pub use policy::*;
pub use provider::{PROVIDER_CONFIGURATION, ProviderConfiguration};
pub use publish::*;
pub use service::*;

/// The API group of VM Operator's kinds.
pub const GROUP: &str = "vmoperator.vmware.com";
/// The API version of VM Operator's kinds.
pub const VERSION: &str = "v1alpha1";
