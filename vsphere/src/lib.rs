//! The vCenter client. It doesn't depend on Kubernetes.
//!
//! One [`Client`] per vCenter shares one session among all callers. [`Inventory`] caches all VMs below a set of
//! folders through one long poll and receives task results on the same stream, so callers read the cache and call
//! vCenter only to make changes. [`Inventory::wait_until`] waits until the cache reaches a given state.
//!
//! One retry loop sends all calls. It waits for the concurrency limit, logs in again if the session has expired, and
//! backs off after each failure. Idempotent calls are repeated after any transient failure. A call that creates or
//! changes a VM is repeated only if it didn't reach vCenter.
//!
//! # Two wire protocols, one value tree
//!
//! The client supports two wire protocols for the VIM API: VI/JSON (vCenter 8.0.1 and later) and SOAP (all releases).
//! Both are decoded into and encoded from one tree, [`Value`], so the code above the codec exists once, and callers
//! don't see which protocol is in use. The codec is written by hand and small: it handles JSON, XML and the field order
//! that SOAP requires, but doesn't define API types. Generated clients, such as `vim_rs`, target VI/JSON first and
//! contain thousands of types, but a controller needs only a few dozen. [`spec`] defines the types that the client
//! sends.
//!
//! [`automation`] contains the Automation API (content libraries, cluster modules).

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod automation;
mod certificate;
mod client;
mod config;
mod console;
mod devices;
mod error;
mod events;
mod exact;
mod fault;
mod gate;
mod http;
pub mod inventory;
mod kind;
mod methods;
mod metrics;
mod network;
mod pbm;
mod places;
mod privileges;
mod properties;
mod recording;
mod retry;
mod session;
pub mod spec;
mod style;
#[cfg(test)]
mod tests;
mod thumbprint;
mod tls;
pub mod untrusted;
mod value;
mod wire;

pub use certificate::ShownCertificate;
pub use client::{About, Client};
pub use config::{ChangeGuard, Config, Credentials, PathStyle, Secret, ServerTrust, WireChoice};
pub use devices::Devices;
pub use error::{Error, Result};
pub use events::Removal;
pub use fault::Fault;
pub use inventory::{Inventory, Vm};
pub use kind::Kind;
pub use metrics::CallMetrics;
pub use network::{Datastore, Network};
pub use pbm::StoragePolicy;
pub use places::{Compute, ComputeHost, InventoryPath};
pub use privileges::{IMPORT_PRIVILEGES, PRIVILEGES, Privilege, PrivilegeScope, PrivilegeUse};
pub use properties::ObjectContent;
pub use recording::{RecordedExchange, RecordedHeaders, Recorder};
pub use session::{AwaitedTask, awaited_task, with_bound_changes};
pub use spec::{
    Allocation, Backing, BaseConfig, CloneSpec, ConfigSpec, CustomizationAdapter, CustomizationIdentity,
    CustomizationSpec, DeviceChange, DiskChange, DiskController, DiskLocator, DiskMoveType, DiskProvisioning,
    FixedIpv4, ManagedBy, NicBacking, NicKind, OVF_TRANSPORT_GUEST_INFO, RelocateSpec, VAppChange,
    VAppProperty, VirtualDisk, VirtualNic, unescape_name,
};
pub use thumbprint::{Thumbprint, ThumbprintError};
pub use value::{MoRef, Object, Value};
pub use wire::WireKind;
