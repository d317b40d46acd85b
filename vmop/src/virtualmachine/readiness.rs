//! Where a machine's readiness probe is aimed.

use std::time::Duration;

use api::vmop::{GuestHeartbeatAction, VirtualMachine};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::reflector::ObjectRef;
use vsphere::Vm;

use crate::probe::{ProbeResult, Prober, Target};
use crate::virtualmachine::status;

/// Aims the probe at the machine's address, or at nothing while it has none; `None` without a probe.
pub fn probed(
    vm: &VirtualMachine,
    machine: &Vm,
    prober: &Prober<ObjectRef<VirtualMachine>>,
) -> Option<ProbeResult> {
    let verdict = prober.set_target(&ObjectRef::from_obj(vm), target(vm, machine));
    let probe = vm.spec.readiness_probe.as_ref()?;
    match (&probe.tcp_socket, &probe.guest_heartbeat) {
        (Some(_), _) => Some(verdict),
        (None, Some(heartbeat)) => Some(beats(machine, heartbeat)),
        (None, None) => None,
    }
}

/// Whether the guest's heart beats as it should: the stream tells, so nobody is asked.
fn beats(machine: &Vm, wanted: &GuestHeartbeatAction) -> ProbeResult {
    let enough = match wanted.threshold_status.as_deref() {
        Some("yellow") => ["green", "yellow"].as_slice(),
        _ => ["green"].as_slice(),
    };
    match machine.guest.heartbeat.as_deref() {
        Some(colour) if enough.contains(&colour) => ProbeResult::Answers,
        Some("gray") | None => ProbeResult::NoAnswer(
            "there is no heartbeat of VMware Tools. Check that they run in the guest".to_owned(),
        ),
        Some(colour) => ProbeResult::NoAnswer(format!("the heartbeat of VMware Tools is {colour}")),
    }
}

fn target(vm: &VirtualMachine, machine: &Vm) -> Option<Target> {
    let probe = vm.spec.readiness_probe.as_ref()?;
    let socket = probe.tcp_socket.as_ref()?;
    let port = match &socket.port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(text) => text.parse().ok().or_else(|| {
            let named = vm.spec.ports.iter().find(|port| port.name == *text)?;
            u16::try_from(named.port).ok()
        }),
    };
    let host = socket.host.as_deref().filter(|host| !host.is_empty());
    Some(Target {
        address: host.or_else(|| status::address(machine))?.parse().ok()?,
        port: port?,
        period: seconds(probe.period_seconds),
        timeout: seconds(probe.timeout_seconds),
    })
}

/// Ten seconds where nothing sensible is given, as vm-operator has it.
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
        let mut machine = fixtures::unmarked_vm("vm-1", "cp-0");
        let mut answers = |colour: Option<&str>| {
            machine.guest.heartbeat = colour.map(str::to_owned);
            ["green", "yellow"].map(|threshold| beats(&machine, &wanted(threshold)) == ProbeResult::Answers)
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
        let mut machine = fixtures::unmarked_vm("vm-1", "cp-0");
        assert_eq!(target(&vm, &machine), None);
        machine.guest.ip = Some("10.1.2.3".into());
        let expected = Target {
            address: "10.1.2.3".parse().unwrap(),
            port: 6443,
            period: Duration::from_secs(3),
            timeout: Duration::from_secs(10),
        };
        assert_eq!(target(&vm, &machine), Some(expected));
    }
}
