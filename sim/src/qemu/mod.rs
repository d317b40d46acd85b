//! Real machines: a QEMU process for each VM that is powered on in the simulated vCenter.
//!
//! Modules: `accelerator` (KVM, or emulation whose clock follows the guest), `segment` (the network), `machine` (the
//! command line), `disks`, `channel` (guestinfo and VMware Tools), and `hypervisor`, which runs machines from power-on
//! to power-off.

mod accelerator;
mod channel;
mod disks;
mod error;
mod host;
mod hypervisor;
mod machine;
mod qmp;
mod relay;
mod segment;

pub use accelerator::Accelerator;
pub use error::Error;
pub use host::check_host;
pub use hypervisor::{Hypervisor, console_log, has_consoles};
pub use segment::host_address;
