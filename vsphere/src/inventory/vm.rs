//! What the cache keeps of one VM.

use std::collections::BTreeMap;
use std::sync::Arc;

use bounds::printable;
use uuid::Uuid;

use super::guest;
use super::guest::{Customized, GuestNic, ToolsState};
use crate::spec::unescape_name;
use crate::{Allocation, Devices, ManagedBy, MoRef, Value};

/// A VM or a template as vCenter reported it last.
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
    /// The text of a question that vCenter asks about it; until it is answered, its operations do not go on.
    pub question: Option<String>,
    /// Whether its configuration is what vCenter says now.
    pub configuration: Configuration,
    /// The BIOS UUID, which the guest sees.
    pub uuid: Option<Uuid>,
    /// The UUID by which vCenter distinguishes VMs.
    pub instance_uuid: Option<Uuid>,
    /// Whose VM it is.
    pub managed_by: Option<ManagedBy>,
    /// The ExtraConfig keys that the options ask for.
    pub extra_config: BTreeMap<String, String>,
    /// How many disks it has, where vCenter has reported it.
    pub disks: Option<u32>,
    /// Its disks, controllers and network adapters, where vCenter has reported them.
    pub devices: Option<Arc<Devices>>,
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
    /// Whether changed blocks are tracked; `None` where vCenter does not report it.
    pub change_tracking: Option<bool>,
    /// The virtual hardware, such as `vmx-19`.
    pub hardware_version: String,
    /// What the guest reports through VMware Tools.
    pub guest: Guest,
}

/// Whether what is known of a VM's configuration (UUIDs, ExtraConfig, hardware, whose it is) is what vCenter says now.
///
/// vCenter unsets the configuration of a VM whose files it can't read, and has none yet of one that is being created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configuration {
    /// vCenter has never reported any: it is not known whose VM this is.
    #[default]
    NeverRead,
    /// vCenter reports none now; it is what it reported last.
    LastKnown,
    /// It is what vCenter reports.
    Current,
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
    /// How its customisation goes, where there is one.
    pub customization: Option<Customized>,
    /// The first virtual network adapters; interfaces that exist only inside the guest are left out.
    pub nics: Vec<GuestNic>,
}

/// Whether a VM runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// It runs.
    On,
    /// It does not.
    Off,
    /// It sleeps.
    Suspended,
}

/// What the stream is asked for. Leaf properties only: whole ones bring enumerations that break readers.
pub(super) const PATHS: &[&str] = &[
    "name",
    "parent",
    "resourcePool",
    "runtime.host",
    "runtime.powerState",
    "runtime.connectionState",
    "runtime.question.text",
    "config.template",
    "config.uuid",
    "config.instanceUuid",
    "config.managedBy",
    "config.extraConfig",
    "summary.config.numVirtualDisks",
    "config.hardware.numCPU",
    "config.hardware.memoryMB",
    "config.hardware.device",
    "config.cpuAllocation",
    "config.memoryAllocation",
    "config.changeVersion",
    "config.changeTrackingEnabled",
    "config.version",
    "guest.ipAddress",
    "guest.hostName",
    "guest.toolsRunningStatus",
    "guest.net",
    "guestHeartbeatStatus",
    // The last one: see `paths`.
    "guest.customizationInfo",
];

/// The paths that a vCenter of that API version knows: `guest.customizationInfo` came with 7.0.2.
pub(super) fn paths(api_version: &str) -> &'static [&'static str] {
    let mut numbers = api_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [0; 3].map(|_: u32| numbers.next().unwrap_or(0));
    if version < [7, 0, 2] { PATHS.split_last().map_or(PATHS, |(_, older)| older) } else { PATHS }
}

/// Of guestinfo only what the guest itself reports is kept: the rest holds keys and tokens.
const REPORTED: [&str; 2] = ["guestinfo.local-", "guestinfo.vmservice."];
/// So many keys are kept of what a guest reports: it may write a megabyte, and not fill our memory with it.
const REPORTED_KEYS: usize = 32;
/// So many characters are kept of each value that a guest reports.
const REPORTED_LENGTH: usize = 1024;
/// So many characters are kept of the name of a state.
const STATE: usize = 64;
/// So many characters are kept of a question.
const QUESTION: usize = 300;

impl Vm {
    pub(super) fn new(moref: MoRef) -> Self {
        Self {
            moref,
            name: String::new(),
            folder: None,
            pool: None,
            host: None,
            template: false,
            power_state: None,
            connection_state: String::new(),
            question: None,
            configuration: Configuration::NeverRead,
            uuid: None,
            instance_uuid: None,
            managed_by: None,
            extra_config: BTreeMap::new(),
            disks: None,
            devices: None,
            num_cpus: 0,
            memory_mib: 0,
            cpu_allocation: Allocation::default(),
            memory_allocation: Allocation::default(),
            change_version: String::new(),
            change_tracking: None,
            hardware_version: String::new(),
            guest: Guest::default(),
        }
    }

    /// Sets one property; null unsets it. Paths that nobody asked for are ignored.
    pub(super) fn set(&mut self, path: &str, value: &Value, keep: &[String]) {
        let text = || value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let uuid = || value.as_str().and_then(|text| Uuid::try_parse(text).ok());
        match path {
            "name" => self.name = unescape_name(value.as_str().unwrap_or_default()),
            "parent" => self.folder = value.as_moref().cloned(),
            "resourcePool" => self.pool = value.as_moref().cloned(),
            "runtime.host" => self.host = value.as_moref().cloned(),
            "runtime.powerState" => self.power_state = power_state(value),
            "runtime.connectionState" => {
                self.connection_state = printable(&text().unwrap_or_default(), STATE);
            }
            "runtime.question.text" => self.question = text().map(|text| printable(&text, QUESTION)),
            "config.template" => self.template = value.as_bool().unwrap_or(false),
            "config.uuid" => self.uuid = uuid(),
            "config.instanceUuid" => self.instance_uuid = uuid(),
            "config.managedBy" => self.managed_by = managed_by(value),
            "config.extraConfig" => self.set_extra_config(value, keep),
            "summary.config.numVirtualDisks" => {
                self.disks = value.as_i64().and_then(|disks| disks.try_into().ok());
            }
            "config.hardware.device" => {
                self.devices = (!value.is_null()).then(|| Arc::new(Devices::read("", value)));
            }
            "config.hardware.numCPU" => self.num_cpus = number(value),
            "config.hardware.memoryMB" => self.memory_mib = number(value),
            "config.cpuAllocation" => self.cpu_allocation = allocation(value),
            "config.memoryAllocation" => self.memory_allocation = allocation(value),
            "config.changeVersion" => self.change_version = text().unwrap_or_default(),
            "config.changeTrackingEnabled" => self.change_tracking = value.as_bool(),
            "config.version" => self.hardware_version = text().unwrap_or_default(),
            "guest.ipAddress" => self.guest.ip = guest::address(value),
            "guest.hostName" => self.guest.host_name = guest::host_name(value),
            "guest.toolsRunningStatus" => self.guest.tools = guest::tools(value),
            "guest.net" => self.guest.nics = guest::nics(value),
            "guestHeartbeatStatus" => self.guest.heartbeat = guest::heartbeat(value),
            "guest.customizationInfo" => self.guest.customization = guest::customized(value),
            _ => {}
        }
    }

    fn set_extra_config(&mut self, value: &Value, keep: &[String]) {
        self.extra_config.clear();
        for option in value.items() {
            if let Some(key) = option.get("key").as_str() {
                self.set_option(key, option.get("value").as_str().unwrap_or_default(), keep);
            }
        }
    }

    fn set_option(&mut self, key: &str, value: &str, keep: &[String]) {
        let begins = |prefix: &str| key.starts_with(prefix);
        if !begins("guestinfo.") {
            if keep.iter().any(|prefix| begins(prefix)) {
                self.extra_config.insert(key.to_owned(), value.to_owned());
            }
            return;
        }
        let kept = self.extra_config.keys().filter(|key| key.starts_with("guestinfo.")).count();
        let plain = key.len() <= REPORTED_LENGTH && key.bytes().all(|byte| byte.is_ascii_graphic());
        if REPORTED.into_iter().any(begins) && kept < REPORTED_KEYS && plain {
            self.extra_config.insert(key.to_owned(), printable(value, REPORTED_LENGTH));
        }
    }
}

fn number<T: TryFrom<i64> + Default>(value: &Value) -> T {
    value.as_i64().and_then(|number| number.try_into().ok()).unwrap_or_default()
}

fn power_state(value: &Value) -> Option<PowerState> {
    match value.as_str()? {
        "poweredOn" => Some(PowerState::On),
        "poweredOff" => Some(PowerState::Off),
        "suspended" => Some(PowerState::Suspended),
        _ => None,
    }
}

fn managed_by(value: &Value) -> Option<ManagedBy> {
    let extension_key = value.get("extensionKey").as_str()?.to_owned();
    Some(ManagedBy { extension_key, kind: value.get("type").as_str().unwrap_or_default().to_owned() })
}

fn allocation(value: &Value) -> Allocation {
    Allocation {
        reservation: value.get("reservation").as_i64(),
        expandable: value.get("expandableReservation").as_bool(),
        limit: value.get("limit").as_i64(),
    }
}
