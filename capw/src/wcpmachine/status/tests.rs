use std::sync::Arc;

use api::conditions::Condition as Graded;
use jiff::Timestamp;
use kit::apply::build_controller_reference;
use kit::status::settle_all;

use crate::error::{InvalidInput, Waiting};
use crate::fixtures::{UUID, facts, wcp_machine};

use super::*;

fn vm(change: impl FnOnce(&mut VirtualMachineStatus)) -> Arc<VirtualMachine> {
    let mut vm = VirtualMachine::default();
    vm.metadata.name = Some("node".into());
    vm.metadata.namespace = Some("ben-test".into());
    vm.metadata.owner_references = Some(vec![build_controller_reference(&wcp_machine())]);
    change(vm.status.get_or_insert_default());
    Arc::new(vm)
}

fn running(status: &mut VirtualMachineStatus) {
    status.phase = Some(vm_phase::CREATED.into());
    status.power_state = Some(POWERED_ON.into());
    status.vm_ip = Some("172.26.1.18".into());
    status.endpoint_addresses = vec!["172.26.1.18".into()];
    status.bios_uuid = Some(UUID.into());
}

fn blocked(status: &mut VirtualMachineStatus, type_: &str, severity: &str, reason: &str) {
    status.conditions.push(Graded::is_false(type_, severity, reason, "because"));
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns the status as the driver would write it.
fn settled(
    wcp_machine: &WCPMachine,
    facts: &Facts,
    outcome: &ReconcileOutcome<Done, Error>,
    now: Timestamp,
) -> WCPMachineStatus {
    let mut new = status(wcp_machine, facts, outcome);
    settle_all(&mut new, wcp_machine.status.as_ref(), now);
    new
}

fn of(outcome: &ReconcileOutcome<Done, Error>) -> WCPMachineStatus {
    settled(&wcp_machine(), &facts(true), outcome, at(0))
}

fn reason(status: &WCPMachineStatus) -> (&str, &str, &str) {
    let ready = &status.conditions[0];
    assert_eq!(ready.type_, "Ready");
    (status.vm_status.as_deref().unwrap(), &ready.reason, &ready.message)
}

#[test]
fn a_virtual_machine_comes_up_step_by_step() {
    type Step = fn(&mut VirtualMachineStatus);
    let name = "VirtualMachine ben-test/node";
    let steps: [(Step, &str, &str, &str); 5] = [
        (|_| {}, "pending", "Provisioning", "is being created"),
        (|s| s.phase = Some(vm_phase::CREATED.into()), "created", "PoweringOn", "is not powered on"),
        (
            |s| {
                running(s);
                s.vm_ip = None;
                s.endpoint_addresses.clear();
            },
            "poweredon",
            "WaitingForNetworkAddress",
            "has no address yet",
        ),
        (
            |s| {
                running(s);
                s.bios_uuid = None;
            },
            "poweredon",
            "WaitingForBIOSUUID",
            "has not reported a BIOS UUID yet. This needs no action",
        ),
        (running, "ready", "Ready", ""),
    ];
    for (change, vm_status, why, says) in steps {
        let status = of(&ReconcileOutcome::Done(Done::Asked(vm(change))));
        let message = if says.is_empty() { String::new() } else { format!("{name} {says}") };
        assert_eq!(reason(&status), (vm_status, why, message.as_str()));
        assert_eq!(status.ready, Some(vm_status == "ready"));
        assert_eq!(status.initialization.is_some(), vm_status == "ready");
    }
}

#[test]
fn a_running_machine_as_in_the_seed() {
    insta::assert_yaml_snapshot!(of(&ReconcileOutcome::Done(Done::Asked(vm(running)))));
}

#[test]
fn what_blocks_the_vm_is_quoted() {
    let missing =
        vm(|s| blocked(s, vmop::VIRTUAL_MACHINE_PREREQ_READY, "Error", "VirtualMachineClassNotFound"));
    let status = of(&ReconcileOutcome::Done(Done::Asked(missing)));
    let expected = ("error", "VirtualMachineClassNotFound", "VirtualMachine ben-test/node: because");
    assert_eq!(reason(&status), expected);

    let soon = vm(|s| blocked(s, vmop::VIRTUAL_MACHINE_PREREQ_READY, "Info", "NetworkNotReady"));
    assert_eq!(reason(&of(&ReconcileOutcome::Done(Done::Asked(soon)))).0, "pending");

    let lost = vm(|s| {
        running(s);
        blocked(s, vmop::VIRTUAL_MACHINE_CREATED, "Error", vmop::VIRTUAL_MACHINE_LOST);
    });
    let status = of(&ReconcileOutcome::Done(Done::Asked(lost)));
    assert_eq!(reason(&status).0, "notfound");
    assert!(reason(&status).2.ends_with("because. A MachineHealthCheck replaces Machine test-cluster-control-plane-jwsx7; without one, delete Machine test-cluster-control-plane-jwsx7"));
}

#[test]
fn a_step_on_the_way_keeps_its_word_and_takes_the_message_from_below() {
    let name = "VirtualMachine ben-test/node: because";
    let cloning = vm(|s| blocked(s, vmop::VIRTUAL_MACHINE_CREATED, "Info", "Cloning"));
    assert_eq!(reason(&of(&ReconcileOutcome::Done(Done::Asked(cloning)))), ("pending", "Provisioning", name));
    let silent = vm(|s| {
        running(s);
        s.vm_ip = None;
        s.endpoint_addresses.clear();
        blocked(s, "VirtualMachineAddressKnown", "Info", "WaitingForAddress");
    });
    assert_eq!(
        reason(&of(&ReconcileOutcome::Done(Done::Asked(silent)))),
        ("poweredon", "WaitingForNetworkAddress", name)
    );
    let stuck = vm(|s| {
        s.phase = Some(vm_phase::CREATED.into());
        blocked(s, "VirtualMachineAddressKnown", "Info", "WaitingForAddress");
        blocked(s, "VirtualMachinePowerStateSynced", "Error", "InsufficientResources");
    });
    assert_eq!(
        reason(&of(&ReconcileOutcome::Done(Done::Asked(stuck)))),
        ("created", "InsufficientResources", name)
    );
}

#[test]
fn a_machine_on_its_way_out_says_what_holds_it() {
    let mut wcp_machine = wcp_machine();
    wcp_machine.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    let mut facts = facts(true);
    let waits = || {
        ReconcileOutcome::Failed(Error::Waiting(Waiting::VirtualMachineGone(
            "VirtualMachine ben-test/node".into(),
        )))
    };
    let gone = settled(&wcp_machine, &facts, &waits(), at(0));
    assert_eq!(reason(&gone), ("deleting", "Deleting", "VirtualMachine ben-test/node is being deleted"));
    facts.vm = Some(vm(|s| blocked(s, conditions::READY, "Error", vmop::DELETION_FAILED)));
    let held = settled(&wcp_machine, &facts, &waits(), at(0));
    assert_eq!(reason(&held), ("deleting", "DeletionFailed", "VirtualMachine ben-test/node: because"));
    facts.vm = Some(vm(|s| blocked(s, conditions::READY, "Warning", vmop::DELETION_HELD)));
    let held = settled(&wcp_machine, &facts, &waits(), at(0));
    assert_eq!(reason(&held), ("deleting", "DeletionHeld", "VirtualMachine ben-test/node: because"));
}

#[test]
fn what_does_not_keep_it_from_running_does_not_block() {
    let status = of(&ReconcileOutcome::Done(Done::Asked(vm(|s| {
        running(s);
        blocked(s, vmop::VIRTUAL_MACHINE_TOOLS, "Info", "VirtualMachineToolsNotRunning");
        blocked(s, vmop::VIRTUAL_MACHINE_PREREQ_READY, "Error", "VirtualMachineImageNotFound");
    }))));
    assert_eq!(reason(&status).1, "Ready");
}

#[test]
fn without_a_virtual_machine_the_outcome_tells() {
    let waiting = ReconcileOutcome::Failed(Error::Waiting(Waiting::ClusterInfrastructure("c".into())));
    assert_eq!(
        reason(&of(&waiting)),
        ("pending", "WaitingForClusterInfrastructureReady", "Cluster c has no infrastructure yet")
    );
    let invalid = ReconcileOutcome::Failed(Error::Invalid(InvalidInput::ProviderId("x".into())));
    assert_eq!(reason(&of(&invalid)).1, "ProviderIDInvalid");
    let lost = of(&ReconcileOutcome::Done(Done::Lost));
    assert_eq!(reason(&lost).0, "notfound");
    assert!(reason(&lost).2.contains("A MachineHealthCheck replaces Machine test-cluster-control-plane-jwsx7; without one, delete Machine test-cluster-control-plane-jwsx7"));
}

/// Otherwise, the status would contain the other VM's UUID. This WCPMachine's own VM would then count as lost, and wouldn't be
/// created once the name is free.
#[test]
fn nothing_is_noted_of_a_virtual_machine_that_is_anothers() {
    let mut other = wcp_machine();
    other.metadata.name = Some("other".into());
    let mut theirs = (*vm(running)).clone();
    for owners in [None, Some(vec![build_controller_reference(&other)])] {
        theirs.metadata.owner_references = owners;
        let facts = Facts { vm: Some(Arc::new(theirs.clone())), ..facts(true) };
        let taken = InvalidInput::NameTaken { object: describe_object(&theirs), advice: "rename it" };
        let status = settled(&wcp_machine(), &facts, &ReconcileOutcome::Failed(Error::Invalid(taken)), at(0));
        assert_eq!(reason(&status).1, "NameTaken");
        assert_eq!((status.vm_id, status.vm_ip, status.addresses.len()), (None, None, 0));
    }
}

#[test]
fn provisioned_once_is_provisioned_for_good() {
    let mut wcp_machine = wcp_machine();
    wcp_machine.status = Some(of(&ReconcileOutcome::Done(Done::Asked(vm(running)))));
    let lost = settled(&wcp_machine, &facts(true), &ReconcileOutcome::Done(Done::Lost), at(9));
    assert_eq!(lost.initialization, Some(Initialization { provisioned: Some(true) }));
    assert_eq!(lost.ready, Some(false));
    assert_eq!(lost.vm_id.as_deref(), Some(UUID));
}

#[test]
fn pause_changes_nothing_but_says_so() {
    let mut wcp_machine = wcp_machine();
    let before = of(&ReconcileOutcome::Done(Done::Asked(vm(running))));
    wcp_machine.status = Some(before.clone());
    let mut facts = facts(true);
    facts.paused = true;
    facts.vm = Some(vm(running));
    let mut paused = settled(&wcp_machine, &facts, &ReconcileOutcome::Paused, at(9));
    let condition = paused.conditions.iter_mut().find(|c| c.type_ == "Paused").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "Paused"));
    let was = before.conditions.iter().find(|c| c.type_ == "Paused").unwrap();
    condition.clone_from(was);
    assert_eq!(paused, before);
}

#[test]
fn the_same_facts_later_make_the_same_status() {
    let outcomes = || {
        [
            ReconcileOutcome::Done(Done::Asked(vm(running))),
            ReconcileOutcome::Done(Done::Asked(vm(|_| {}))),
            ReconcileOutcome::Done(Done::Lost),
            ReconcileOutcome::Failed(Error::Waiting(Waiting::OwnerMachine)),
        ]
    };
    for (first, second) in outcomes().into_iter().zip(outcomes()) {
        let mut wcp_machine = wcp_machine();
        let one = settled(&wcp_machine, &facts(true), &first, at(1));
        wcp_machine.status = Some(one.clone());
        assert_eq!(settled(&wcp_machine, &facts(true), &second, at(2)), one);
    }
}

#[test]
fn a_machine_that_serves_stays_ready_in_an_outage_and_says_what_is_the_matter() {
    let vm = vm(|status| {
        running(status);
        let unreachable = Graded::is_unknown(
            "VirtualMachinePowerStateSynced",
            "Unreachable",
            "its datastore is inaccessible",
        );
        status.conditions.push(unreachable);
    });
    let status = of(&ReconcileOutcome::Done(Done::Asked(vm)));
    let text = "VirtualMachine ben-test/node: its datastore is inaccessible";
    assert_eq!(reason(&status), ("ready", "Ready", text));
    assert_eq!(status.ready, Some(true));
}

#[test]
fn a_vm_that_vcenter_does_not_reach_is_named_before_its_power_state() {
    let made = vm(|status| {
        status.phase = Some(vm_phase::CREATED.into());
        let unreachable =
            Graded::is_unknown("VirtualMachinePowerStateSynced", "Unreachable", "check its host");
        status.conditions.push(unreachable);
        blocked(status, "VirtualMachineAddressReady", conditions::INFO, vmop::WAITING_FOR_ADDRESS);
    });
    let status = of(&ReconcileOutcome::Done(Done::Asked(made)));
    assert_eq!(reason(&status), ("created", "Unreachable", "VirtualMachine ben-test/node: check its host"));
}

#[test]
fn a_guest_that_did_not_become_a_node_leaves_the_machine_provisioned_and_not_ready() {
    let failed = vm(|s| {
        running(s);
        let text = "kubeadm init failed: Port 10259 is in use";
        s.conditions.push(Graded::is_false(vmop::GUEST_BOOTSTRAP, "Warning", "BootstrapFailed", text));
    });
    let status = of(&ReconcileOutcome::Done(Done::Asked(failed)));
    let (vm_status, why, message) = reason(&status);
    assert_eq!((vm_status, why), ("ready", "BootstrapFailed"));
    let cause = "VirtualMachine ben-test/node: kubeadm init failed: Port 10259 is in use. ";
    assert!(message.starts_with(cause) && message.contains("clean node image"), "{message}");
    assert_eq!((status.ready, status.initialization.is_some()), (Some(true), true));
    assert_eq!(status.conditions[1].status, "True", "VirtualMachineProvisioned");

    let silent = vm(|s| {
        running(s);
        s.vm_ip = None;
        blocked(s, "VirtualMachineAddressReady", "Info", "WaitingForAddress");
        s.conditions.push(Graded::is_unknown(vmop::GUEST_BOOTSTRAP, "NoBootstrapStatus", "no report"));
    });
    let expected = ("poweredon", "NoBootstrapStatus", "VirtualMachine ben-test/node: no report");
    assert_eq!(reason(&of(&ReconcileOutcome::Done(Done::Asked(silent)))), expected);
}
