//! What callers ask for, as types; each turns into a [`crate::Value`] with the fields in the order of the WSDL,
//! because vCenter's SOAP reader insists on it.

mod device;
mod disk;
mod filter;
mod vm;

pub use device::{Backing, DeviceChange, EthernetCard, EthernetKind};
pub use disk::{Controller, Disk, DiskChange, DiskLocator, Provisioning};
pub(crate) use filter::{filter_spec, object_spec, property_spec, traversal};
pub use vm::{Allocation, CloneSpec, ConfigSpec, DiskMoveType, ManagedBy, RelocateSpec};
pub(crate) use vm::{escape_name, unescape_name};
