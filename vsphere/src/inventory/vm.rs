//! What the cache keeps of one machine.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::{Allocation, ManagedBy, MoRef};

/// A virtual machine or a template as vCenter told last.
#[derive(Clone, Debug, PartialEq)]
pub struct Vm {
    /// Its reference.
    pub moref: MoRef,
    /// Its name in the inventory, without vCenter's escapes.
    pub name: String,
    /// The folder it is in; `None` for a member of a vApp.
    pub folder: Option<MoRef>,
    /// The resource pool; `None` for a template.
    pub pool: Option<MoRef>,
    /// The host it is registered on.
    pub host: Option<MoRef>,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs; `None` while it can't be reached.
    pub power_state: Option<PowerState>,
    /// Such as `connected`, `inaccessible` or `orphaned`.
    pub connection_state: String,
    /// The BIOS UUID, which the guest sees.
    pub uuid: Option<Uuid>,
    /// The UUID by which vCenter tells machines apart.
    pub instance_uuid: Option<Uuid>,
    /// Whose machine it is.
    pub managed_by: Option<ManagedBy>,
    /// The ExtraConfig keys that the options ask for.
    pub extra_config: BTreeMap<String, String>,
    /// What is known of the bootstrap keys (`guestinfo.metadata`, `guestinfo.userdata`, `guestinfo.vendordata`), by key.
    pub guestinfo: BTreeMap<String, GuestInfo>,
    /// Virtual CPUs.
    pub num_cpus: u32,
    /// Memory.
    pub memory_mib: u64,
    /// CPU guaranteed and allowed, in MHz.
    pub cpu_allocation: Allocation,
    /// Memory guaranteed and allowed, in MiB.
    pub memory_allocation: Allocation,
    /// Changes with every change of the settings.
    pub change_version: String,
    /// The virtual hardware, such as `vmx-19`.
    pub hardware_version: String,
    /// What the guest reports through VMware Tools.
    pub guest: Guest,
}

/// What the guest reports through VMware Tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// The primary address, as VMware Tools see it.
    pub ip: Option<String>,
    /// The host name.
    pub host_name: Option<String>,
    /// Whether VMware Tools run.
    pub tools: Option<ToolsState>,
    /// `gray`, `red`, `yellow` or `green`.
    pub heartbeat: Option<String>,
    /// The virtual network cards; interfaces that exist only inside the guest are left out.
    pub nics: Vec<GuestNic>,
}

/// A network card as the guest sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNic {
    /// The key of the device.
    pub device_key: i32,
    /// The MAC.
    pub mac: String,
    /// The network's name.
    pub network: String,
    /// Whether it is connected.
    pub connected: bool,
    /// The addresses, with the prefix length where it is known (`10.0.0.5/24`).
    pub addresses: Vec<String>,
}

/// Whether VMware Tools run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolsState {
    /// They run.
    Running,
    /// They don't.
    NotRunning,
    /// They run scripts on the way up or down.
    ExecutingScripts,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// It runs.
    On,
    /// It does not.
    Off,
    /// It sleeps.
    Suspended,
}

/// What is known of a bootstrap key without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestInfo {
    /// There is no value.
    Empty,
    /// The guest has taken it and left `---`.
    Redacted,
    /// There is one; the first eight bytes of its SHA-256.
    Present(u64),
}
