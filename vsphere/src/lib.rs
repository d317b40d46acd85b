//! The vCenter client. It knows no Kubernetes.
//!
//! One [`Client`] per vCenter holds one session, whoever uses it. [`Inventory`] keeps a cache of all VMs below some
//! folders by one long poll, and awaits tasks on the same stream, so a caller reads the cache and sends only calls
//! that change something. [`Inventory::wait_until`] waits for what the stream will show.
//!
//! Calls that may be repeated are repeated, in one loop: it takes a place among the calls in flight, logs in again
//! if the session is gone, and pauses longer after each failure. What makes or changes a VM is never sent twice.
//!
//! # Two wires, one tree
//!
//! Two wires carry the VIM API: VI/JSON (vCenter 8.0.1 and later) and SOAP (all others). Both are read into and
//! written from one tree, [`Value`], so that everything above the codec is written once, and callers don't see which
//! wire is in use. A codec of its own is small because of that: it knows JSON, XML and the order of the fields that
//! SOAP asks for, and no type of the API. Generated clients, such as `vim_rs`, speak VI/JSON first and bring
//! thousands of types, of which a controller needs some dozen; those that we send stand in [`spec`].
//!
//! The Automation API (content libraries, cluster modules) is in [`automation`].

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
pub use config::{Config, Credentials, Guard, PathStyle, Secret, Trust, WireChoice};
pub use devices::Devices;
pub use error::{Error, Result};
pub use events::Removal;
pub use fault::Fault;
pub use inventory::{Inventory, Vm};
pub use kind::Kind;
pub use metrics::Metrics;
pub use network::{Datastore, Network};
pub use pbm::StoragePolicy;
pub use places::{Compute, ComputeHost, Place};
pub use privileges::{IMPORT_PRIVILEGES, PRIVILEGES, Privilege, PrivilegeScope, PrivilegeUse};
pub use properties::ObjectContent;
pub use recording::{RecordedExchange, RecordedHeaders, Recorder};
pub use session::{AwaitedTask, awaited_task, with_bound_changes};
pub use spec::{
    Allocation, Backing, BaseConfig, CloneSpec, ConfigSpec, Controller, CustomizationAdapter,
    CustomizationIdentity, CustomizationSpec, DeviceChange, Disk, DiskChange, DiskLocator, DiskMoveType,
    FixedIpv4, ManagedBy, NicBacking, NicKind, OVF_TRANSPORT_GUEST_INFO, Provisioning, RelocateSpec,
    VAppConfigSpec, VAppProperty, VirtualNic, unescape_name,
};
pub use thumbprint::{Thumbprint, ThumbprintError};
pub use value::{MoRef, Object, Value};
pub use wire::WireKind;
