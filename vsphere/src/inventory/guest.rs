//! Reads and sanitizes the untrusted guest data from VMware Tools: replaces terminal control characters, limits lengths
//! and counts, and drops invalid addresses.

use std::net::IpAddr;

use bounds::printable;

use crate::Value;
use crate::exact::exact;

/// The maximum number of NICs to read. A VM can have ten.
const NICS: usize = 16;
/// The maximum number of addresses to read per NIC.
const ADDRESSES: usize = 16;
/// The longest DNS name, in characters.
const HOST_NAME: usize = 253;
/// The longest name in vCenter, in characters.
const NETWORK_NAME: usize = 80;
/// The length limit for state names, in characters.
const STATE: usize = 64;
/// The length limit for error messages, in characters.
const MESSAGE: usize = 400;

/// A guest customization's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customized {
    /// A status such as `TOOLSDEPLOYPKG_RUNNING`.
    pub status: String,
    /// The error message, if the customization failed.
    pub error: Option<String>,
}

/// A NIC as the guest reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNic {
    /// The virtual NIC's device key.
    pub device_key: i32,
    /// The MAC address; empty if the guest doesn't report a valid one.
    pub mac: String,
    /// The name of the network that the NIC is connected to.
    pub network: String,
    pub connected: bool,
    /// The first addresses (up to 16), with the prefix length if it is known (`10.0.0.5/24`).
    pub addresses: Vec<String>,
}

/// The VMware Tools state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolsState {
    Running,
    NotRunning,
    /// VMware Tools is running scripts during startup or shutdown.
    ExecutingScripts,
}

pub(super) fn address(value: &Value) -> Option<String> {
    value.as_str().filter(|text| text.parse::<IpAddr>().is_ok()).map(str::to_owned)
}

pub(super) fn host_name(value: &Value) -> Option<String> {
    shown(value, HOST_NAME)
}

/// Returns the heartbeat color if it is one of the four colors that vSphere defines.
pub(super) fn heartbeat(value: &Value) -> Option<String> {
    let colour = value.as_str().filter(|text| ["gray", "red", "yellow", "green"].contains(text));
    colour.map(str::to_owned)
}

pub(super) fn parse_tools(value: &Value) -> Option<ToolsState> {
    match value.as_str()? {
        "guestToolsRunning" => Some(ToolsState::Running),
        "guestToolsNotRunning" => Some(ToolsState::NotRunning),
        "guestToolsExecutingScripts" => Some(ToolsState::ExecutingScripts),
        _ => None,
    }
}

pub(super) fn customized(value: &Value) -> Option<Customized> {
    let status = shown(value.get("customizationStatus"), STATE)?;
    Some(Customized { status, error: shown(value.get("errorMsg"), MESSAGE) })
}

pub(super) fn nics(value: &Value) -> Vec<GuestNic> {
    exact(value.items().iter().filter_map(parse_nic).take(NICS))
}

/// Reads a NIC. Interfaces without a virtual device, such as bridges and tunnels, are skipped: a Kubernetes node creates
/// dozens of them.
fn parse_nic(value: &Value) -> Option<GuestNic> {
    let device_key = i32::try_from(value.get("deviceConfigId").as_i64()?).ok()?;
    if device_key < 0 {
        return None;
    }
    let with_prefix = value.get("ipConfig").get("ipAddress").items().iter().filter_map(|address| {
        let ip = self::address(address.get("ipAddress"))?;
        Some(match address.get("prefixLength").as_i64() {
            Some(length) => format!("{ip}/{length}"),
            None => ip,
        })
    });
    let mut addresses = exact(with_prefix.take(ADDRESSES));
    if addresses.is_empty() {
        let plain = value.get("ipAddress").items().iter().filter_map(address);
        addresses = exact(plain.take(ADDRESSES));
    }
    let mac = value.get("macAddress").as_str().filter(|text| is_mac(text));
    Some(GuestNic {
        device_key,
        mac: mac.unwrap_or_default().to_owned(),
        network: shown(value.get("network"), NETWORK_NAME).unwrap_or_default(),
        connected: value.get("connected").as_bool().unwrap_or(false),
        addresses,
    })
}

/// Returns true for six bytes in vCenter's notation: `00:50:56:ab:cd:ef`.
fn is_mac(text: &str) -> bool {
    let mut bytes = 0;
    let all = text.split(':').all(|byte| {
        bytes += 1;
        byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    all && bytes == 6
}

fn shown(value: &Value, max: usize) -> Option<String> {
    value.as_str().map(|text| printable(text, max)).filter(|text| !text.is_empty())
}
