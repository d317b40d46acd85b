//! Typed request data. Each type converts into a [`crate::Value`] with its fields in WSDL order, because vCenter's
//! SOAP parser requires that order.

mod customization;
mod device;
mod disk;
mod extra_config;
mod filter;
mod order;
mod profile;
mod raw;
mod vapp;
mod vm;

pub use customization::{CustomizationAdapter, CustomizationIdentity, CustomizationSpec, FixedIpv4};
pub use device::{Backing, DeviceChange, NicBacking, NicKind, VirtualNic};
pub use disk::{DiskChange, DiskController, DiskLocator, DiskMoveType, DiskProvisioning, VirtualDisk};
pub use extra_config::ExtraConfig;
pub(crate) use filter::{filter_spec, object_spec, property_spec, traversal};
pub use raw::BaseConfig;
pub use vapp::{OVF_TRANSPORT_GUEST_INFO, VAppChange, VAppProperty};
pub(crate) use vm::escape_name;
pub use vm::unescape_name;
pub use vm::{Allocation, CloneSpec, ConfigSpec, ManagedBy, RelocateSpec};
