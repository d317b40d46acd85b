//! The cached state of a VM.

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
    pub moref: MoRef,
    /// The inventory name without vCenter's escapes.
    pub name: String,
    /// The parent folder; `None` for a member of a vApp.
    pub folder: Option<MoRef>,
    /// The resource pool; `None` for a template.
    pub pool: Option<MoRef>,
    /// The host on which the VM is registered.
    pub host: Option<MoRef>,
    pub template: bool,
    /// The power state; `None` while vCenter can't reach the VM.
    pub power_state: Option<PowerState>,
    /// A state such as `connected`, `inaccessible` or `orphaned`.
    pub connection_state: String,
    /// The text of a pending question. The VM's operations block until someone answers it.
    pub question: Option<String>,
    /// Distinguishes current configuration values from last known ones.
    pub configuration: Configuration,
    /// The BIOS UUID, which the guest sees.
    pub uuid: Option<Uuid>,
    /// The UUID by which vCenter identifies the VM.
    pub instance_uuid: Option<Uuid>,
    /// The extension that owns the VM.
    pub managed_by: Option<ManagedBy>,
    /// The ExtraConfig values that are kept: see [`Options::extra_config`](super::Options::extra_config).
    pub extra_config: BTreeMap<String, String>,
    /// The disk count, if vCenter has reported it.
    pub disks: Option<u32>,
    /// The disks, controllers and NICs, if vCenter has reported them.
    pub devices: Option<Arc<Devices>>,
    pub num_cpus: u32,
    pub memory_mib: u64,
    /// The CPU reservation and limit in MHz.
    pub cpu_allocation: Allocation,
    /// The memory reservation and limit in MiB.
    pub memory_allocation: Allocation,
    /// An opaque version that changes with every reconfiguration.
    pub change_version: String,
    /// True if changed block tracking is enabled; `None` if vCenter doesn't report it.
    pub change_tracking: Option<bool>,
    /// The virtual hardware version, such as `vmx-19`.
    pub hardware_version: String,
    pub guest: GuestState,
}

/// The freshness of a VM's configuration values (UUIDs, ExtraConfig, hardware, owner).
///
/// vCenter unsets the configuration if it can't read the VM's files, and doesn't report a configuration while a VM is
/// being created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configuration {
    /// vCenter has never reported a configuration, so the VM's identity is unknown.
    #[default]
    NeverRead,
    /// vCenter doesn't report a configuration now. The values are the last reported ones.
    LastKnown,
    /// The values are current.
    Current,
}

/// The state that a guest reports through VMware Tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestState {
    /// The primary address according to VMware Tools.
    pub ip: Option<String>,
    pub host_name: Option<String>,
    pub tools: Option<ToolsState>,
    /// `gray`, `red`, `yellow` or `green`.
    pub heartbeat: Option<String>,
    /// The guest customization's status, if there is a customization.
    pub customization: Option<Customized>,
    /// The first virtual NICs (up to 16). Interfaces that exist only inside the guest are omitted.
    pub nics: Vec<GuestNic>,
}

/// A VM's power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    On,
    Off,
    Suspended,
}

/// The property paths that the stream requests. The paths are narrow, because whole objects contain enumerations that
/// break readers.
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
    // Keep this path last: see `paths`.
    "guest.customizationInfo",
];

/// Returns the paths that an API version supports: `guest.customizationInfo` requires 7.0.2.
pub(super) fn paths(api_version: &str) -> &'static [&'static str] {
    let mut numbers = api_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = [0; 3].map(|_: u32| numbers.next().unwrap_or(0));
    if version < [7, 0, 2] { PATHS.split_last().map_or(PATHS, |(_, older)| older) } else { PATHS }
}

/// The prefixes of guestinfo keys that the guest itself writes. All other guestinfo is dropped, because it may contain
/// private keys and tokens.
const REPORTED: [&str; 2] = ["guestinfo.local-", "guestinfo.vmservice."];
/// The maximum number of guest-written keys to keep. A guest may write up to a megabyte.
const REPORTED_KEYS: usize = 32;
/// The length limit for guest-written keys and values, in characters. Longer values are truncated, and longer keys are
/// dropped.
const REPORTED_LENGTH: usize = 1024;
/// The length limit for state names, in characters.
const STATE: usize = 64;
/// The length limit for questions, in characters.
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
            guest: GuestState::default(),
        }
    }

    /// Sets one property; null unsets it. Unrequested paths are ignored. `keep` lists the prefixes of the ExtraConfig
    /// keys to keep.
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
            "guest.toolsRunningStatus" => self.guest.tools = guest::parse_tools(value),
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
