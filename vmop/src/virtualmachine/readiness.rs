//! VM readiness: the guest's address, VMware Tools and the readiness probe.

use std::net::IpAddr;
use std::time::Duration;

use api::conditions::{Condition, ERROR, INFO, vmop as known};
use api::vmop::{GuestHeartbeatAction, VirtualMachine, VirtualMachineSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::reflector::ObjectRef;
use vsphere::Vm;
use vsphere::inventory::PowerState;

use super::condition_types;
use super::nic::endpoint::is_routable;
use super::power::operation::tools_running;
use crate::probe::{ProbeResult, ProbeTarget, Prober};

/// Returns the readiness probe's result, or `None` without a probe. `target` is the target that the probe dials.
pub fn probe_result(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    target: Option<&ProbeTarget>,
    prober: &Prober<ObjectRef<VirtualMachine>>,
) -> Option<ProbeResult> {
    let probe = vm.spec.readiness_probe.as_ref()?;
    match (&probe.tcp_socket, &probe.guest_heartbeat) {
        (Some(_), _) => Some(prober.result(&ObjectRef::from_obj(vm), target)),
        (None, Some(wanted)) => Some(probe_heartbeat(vsphere_vm, wanted)),
        (None, None) => None,
    }
}

/// Returns the address condition. `conflict` says why all reported addresses belong to other VMs.
pub fn address_condition(vsphere_vm: &Vm, conflict: Option<&str>) -> Condition {
    if let Some(conflict) = conflict {
        return Condition::is_false(condition_types::ADDRESS, ERROR, known::ADDRESS_IN_USE, conflict);
    }
    match address(vsphere_vm) {
        Some(_) => Condition::is_true(condition_types::ADDRESS),
        None => Condition::is_false(
            condition_types::ADDRESS,
            INFO,
            known::WAITING_FOR_ADDRESS,
            explain_missing_address(vsphere_vm),
        ),
    }
}

/// Returns likely reasons for the missing address. The condition's transition time shows how long the address has been missing.
fn explain_missing_address(vsphere_vm: &Vm) -> &'static str {
    if tools_running(vsphere_vm) {
        "VMware Tools are running, but the guest has no address that others can use. If this persists, check that the network has DHCP or that the guest has a static address"
    } else {
        "The guest has not reported an address yet. If this persists, check that the network has DHCP and that the image has VMware Tools"
    }
}

/// Returns the address that the guest of a running VM reports, if other computers can connect to that address.
pub fn address(vsphere_vm: &Vm) -> Option<&str> {
    if vsphere_vm.power_state != Some(PowerState::On) {
        return None;
    }
    let ip = vsphere_vm.guest.ip.as_deref()?;
    is_routable(ip.parse().ok()?).then_some(ip)
}

/// Returns the probe result for the guest's heartbeat. The inventory stream contains the heartbeat, so this doesn't call
/// vCenter.
fn probe_heartbeat(vsphere_vm: &Vm, wanted: &GuestHeartbeatAction) -> ProbeResult {
    let enough = match wanted.threshold_status.as_deref() {
        Some("yellow") => ["green", "yellow"].as_slice(),
        _ => ["green"].as_slice(),
    };
    match vsphere_vm.guest.heartbeat.as_deref() {
        Some(colour) if enough.contains(&colour) => ProbeResult::Answers,
        Some("gray") | None => ProbeResult::NoAnswer(
            "VMware Tools send no heartbeat. Check that they are running in the guest".to_owned(),
        ),
        Some(colour) => ProbeResult::NoAnswer(format!("the heartbeat of VMware Tools is {colour}")),
    }
}

/// Returns the condition for VMware Tools.
pub fn tools_condition(vsphere_vm: &Vm) -> Condition {
    let named = |reason: &str, condition| Condition { reason: Some(reason.to_owned()), ..condition };
    match vsphere_vm.guest.tools {
        _ if tools_running(vsphere_vm) => {
            let is_true = Condition::is_true(known::VIRTUAL_MACHINE_TOOLS);
            named(known::VIRTUAL_MACHINE_TOOLS_RUNNING, is_true)
        }
        None => Condition::is_unknown(
            known::VIRTUAL_MACHINE_TOOLS,
            known::NO_GUEST_INFO,
            "vCenter has no information about VMware Tools in this guest",
        ),
        Some(_) => {
            let message = if vsphere_vm.power_state == Some(PowerState::On) {
                "VMware Tools are not running, so there is no address, no heartbeat and no soft shutdown. If this persists, check that the image contains them"
            } else {
                "The VM is off"
            };
            let reason = known::VIRTUAL_MACHINE_TOOLS_NOT_RUNNING;
            Condition::is_false(known::VIRTUAL_MACHINE_TOOLS, INFO, reason, message)
        }
    }
}

/// Returns the readiness probe's target, or `None` without a TCP probe or without an address.
///
/// The probe may dial only the addresses in `own`, to which traffic may be sent. For other targets, returns an error message.
pub fn probe_target(
    vm: &VirtualMachine,
    vsphere_vm: &Vm,
    own: &[IpAddr],
) -> Result<Option<ProbeTarget>, String> {
    let Some(probe) = vm.spec.readiness_probe.as_ref() else { return Ok(None) };
    let Some(socket) = probe.tcp_socket.as_ref() else { return Ok(None) };
    let Some(reported) = address(vsphere_vm) else { return Ok(None) };
    let Some(first) = own.first() else {
        return Err(format!(
            "The address {reported}, which the guest reports, is not probed: no network provider assigned it, and no range of GuestAddressRanges in the provider configuration contains it. Add a range with this address to GuestAddressRanges"
        ));
    };
    let host = socket.host.as_deref().filter(|host| !host.is_empty());
    let address = match host {
        None => *first,
        Some(host) => host.parse().ok().filter(|host| own.contains(host)).ok_or_else(|| {
            format!("tcpSocket.host {host:?} is not an address of this VM and is not probed. Leave it out")
        })?,
    };
    let port = probe_port(&vm.spec, &socket.port).ok_or_else(|| {
        format!("spec.readinessProbe.tcpSocket.port {NO_PORT}. Correct it, or name the port in spec.ports")
    })?;
    Ok(Some(ProbeTarget {
        address,
        port,
        period: seconds(probe.period_seconds),
        timeout: seconds(probe.timeout_seconds),
    }))
}

/// The reason why [`probe_port`] doesn't find a port.
pub const NO_PORT: &str = "is neither a number from 1 to 65535 nor the name of a port in spec.ports";

/// Returns the probe's port number. The spec contains a number or the name of a port in `spec.ports`. Returns `None` if that
/// isn't a port from 1 to 65535.
pub fn probe_port(spec: &VirtualMachineSpec, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(text) => text.parse().ok().or_else(|| {
            let named = spec.ports.iter().find(|port| port.name == *text)?;
            u16::try_from(named.port).ok()
        }),
    };
    number.filter(|port| *port > 0)
}

/// Converts a number of seconds. Missing and non-positive values become ten seconds, as in vm-operator.
fn seconds(given: Option<i32>) -> Duration {
    Duration::from_secs(
        given.and_then(|given| u64::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(10),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures;

    #[test]
    fn a_heartbeat_is_as_good_as_its_colour() {
        let wanted = |threshold: &str| GuestHeartbeatAction { threshold_status: Some(threshold.into()) };
        let mut vsphere_vm = fixtures::unmarked_vm("vm-1", "cp-0");
        let mut answers = |colour: Option<&str>| {
            vsphere_vm.guest.heartbeat = colour.map(str::to_owned);
            ["green", "yellow"]
                .map(|threshold| probe_heartbeat(&vsphere_vm, &wanted(threshold)) == ProbeResult::Answers)
        };
        assert_eq!(answers(Some("green")), [true, true]);
        assert_eq!(answers(Some("yellow")), [false, true]);
        for dead in [Some("red"), Some("gray"), None] {
            assert_eq!(answers(dead), [false, false]);
        }
    }

    #[test]
    fn the_probe_is_aimed_at_the_reported_address() {
        let vm: VirtualMachine = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "cp-0", "namespace": "ns"},
            "spec": {
                "imageName": "i", "className": "c",
                "ports": [{"name": "api", "port": 6443, "ip": "", "protocol": "TCP"}],
                "readinessProbe": {"tcpSocket": {"port": "api"}, "periodSeconds": 3},
            },
        }))
        .unwrap();
        let mut vsphere_vm = fixtures::unmarked_vm("vm-1", "cp-0");
        assert_eq!(probe_target(&vm, &vsphere_vm, &[]), Ok(None));
        vsphere_vm.guest.ip = Some("10.1.2.3".into());
        let own: [IpAddr; 2] = ["10.1.2.3".parse().unwrap(), "10.1.2.4".parse().unwrap()];
        let expected = ProbeTarget {
            address: own[0],
            port: 6443,
            period: Duration::from_secs(3),
            timeout: Duration::from_secs(10),
        };
        assert_eq!(probe_target(&vm, &vsphere_vm, &own), Ok(Some(expected)));

        let probe = |host: &str, timeout: i32| {
            let mut vm = vm.clone();
            let probe = vm.spec.readiness_probe.as_mut().unwrap();
            probe.timeout_seconds = Some(timeout);
            probe.tcp_socket.as_mut().unwrap().host = Some(host.to_owned());
            probe_target(&vm, &vsphere_vm, &own)
        };
        let patient = ProbeTarget { timeout: Duration::from_mins(1), ..expected };
        assert_eq!(probe("", 60), Ok(Some(patient)));
        assert_eq!(probe("10.1.2.4", 60), Ok(Some(ProbeTarget { address: own[1], ..patient })));
        for host in ["10.96.0.1", "127.0.0.1", "vcenter.example.com"] {
            assert!(probe(host, 1).unwrap_err().contains(host), "{host}");
        }
        for port in [serde_json::json!("https"), serde_json::json!(0), serde_json::json!(70_000)] {
            let mut vm = vm.clone();
            let socket = vm.spec.readiness_probe.as_mut().unwrap().tcp_socket.as_mut().unwrap();
            socket.port = serde_json::from_value(port).unwrap();
            assert!(
                probe_target(&vm, &vsphere_vm, &own).unwrap_err().contains("name of a port in spec.ports")
            );
        }
        let unknown = probe_target(&vm, &vsphere_vm, &[]).unwrap_err();
        assert!(unknown.contains("10.1.2.3") && unknown.contains("GuestAddressRanges"), "{unknown}");
    }
}
