//! What a guest reports through VMware Tools, as it enters: a stranger's words, without what steers a terminal, of bounded length and
//! number, and addresses only if they are such.

use std::net::IpAddr;

use bounds::printable;

use crate::Value;
use crate::exact::exact;

/// No VM has more adapters than ten.
const NICS: usize = 16;
/// So many addresses are kept of an adapter.
const ADDRESSES: usize = 16;
/// The longest name in DNS has 253 characters.
const HOST_NAME: usize = 253;
/// No name in vCenter is longer.
const NETWORK_NAME: usize = 80;
/// So many characters are kept of the name of a state.
const STATE: usize = 64;
/// So many characters are kept of what went wrong.
const MESSAGE: usize = 400;

/// How a guest's customisation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customized {
    /// Such as `TOOLSDEPLOYPKG_RUNNING`.
    pub status: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// A network adapter as the guest sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestNic {
    /// The key of the device.
    pub device_key: i32,
    /// The MAC; empty where the guest reports none that is one.
    pub mac: String,
    /// The network's name.
    pub network: String,
    /// Whether it is connected.
    pub connected: bool,
    /// The first addresses, with the prefix length where it is known (`10.0.0.5/24`).
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

pub(super) fn address(value: &Value) -> Option<String> {
    value.as_str().filter(|text| text.parse::<IpAddr>().is_ok()).map(str::to_owned)
}

pub(super) fn host_name(value: &Value) -> Option<String> {
    shown(value, HOST_NAME)
}

/// One of the four colours.
pub(super) fn heartbeat(value: &Value) -> Option<String> {
    let colour = value.as_str().filter(|text| ["gray", "red", "yellow", "green"].contains(text));
    colour.map(str::to_owned)
}

pub(super) fn tools(value: &Value) -> Option<ToolsState> {
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
    exact(value.items().iter().filter_map(nic).take(NICS))
}

/// A bridge or a tunnel inside the guest has no device: a Kubernetes node makes dozens of them.
fn nic(value: &Value) -> Option<GuestNic> {
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

/// Six bytes as vCenter writes them: `00:50:56:ab:cd:ef`.
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
