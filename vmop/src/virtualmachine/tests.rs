//! Tests the plan and the status together.

use std::sync::Arc;

use api::conditions::{self, Condition};
use api::names::annotation;
use api::vmop::VirtualMachine;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use uuid::Uuid;
use vsphere::NicKind::{self, E1000, Vmxnet3};
use vsphere::inventory::PowerState;
use vsphere::{VirtualNic, Vm};

use super::error::{Blocked, Error, TakenIdentity};
use super::facts::Facts;
use super::identity::find::Found;
use super::identity::lost::loss_message;
use super::identity::uuids::{complete_identity, decisive_state, existed, parse_identity};
use super::needs::Needs;
use super::nic::adapter::Nic;
use super::nic::device_changes::clone_nics;
use super::plan::{self, Plan};
use super::size::class;
use super::status::{Outcome, compute_status};
use super::step::{PowerMode, Step};
use crate::probe::ProbeResult;
use crate::testing::fixtures;
use crate::unmet::Unmet;
use crate::vcenter::Problem;

mod create_queue;
mod deletion;
mod lifecycle;
mod outages;

/// Returns the plan for `vm` if vCenter contains `found`, and its conditions, one per line.
fn planned(
    vm: &VirtualMachine,
    found: Found,
    probe: Option<ProbeResult>,
) -> (Result<Plan, Blocked>, Vec<String>) {
    let mut facts = fixtures::facts(found);
    facts.runtime.probe = probe;
    planned_from(vm, &facts)
}

fn planned_from(vm: &VirtualMachine, facts: &Facts) -> (Result<Plan, Blocked>, Vec<String>) {
    let plan = plan::plan(vm, facts);
    let error = plan.clone().err().map(Error::from);
    let outcome = error.as_ref().map_or(Outcome::Done(None), Outcome::Stopped);
    let status = compute_status(vm, Some(facts), &outcome);
    (plan, lines(&status.conditions))
}

fn lines(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(fixtures::condition_line).collect()
}

#[test]
fn a_vm_is_made_by_one_clone_with_everything_in_it() {
    let facts = fixtures::facts_of_creation(fixtures::needs());
    let (plan, _) = planned_from(&fixtures::virtual_machine(), &facts);
    insta::assert_debug_snapshot!(plan.unwrap());
}

#[test]
fn a_clone_is_powered_on_at_once_only_where_its_devices_are_known_to_come() {
    use crate::device_check::DeviceKinds;
    let notes_of = |clone: &super::clone::ClonePlan| {
        let notes = clone.spec.config.iter().flat_map(|config| config.extra_config.iter());
        let notes = notes.filter(|(key, _)| key == "layercake.networkInterfaces");
        notes.map(|(_, note)| note.clone()).collect::<Vec<_>>()
    };
    let vm = fixtures::with_volumes(&[("data", "1Gi")]);
    let mut needs = fixtures::needs();
    needs.nics = needs.nics.map(|nics| {
        nics.into_iter().map(|nic| Nic { mac: Some("00:50:56:aa:00:01".into()), ..nic }).collect()
    });
    let both = DeviceKinds { nics: true, disks: true };
    for (proven, powered_on, note) in [
        (DeviceKinds::default(), false, Some("unchecked nics disks")),
        (DeviceKinds { disks: false, ..both }, false, Some("unchecked nics disks")),
        (both, true, None),
    ] {
        let mut facts = fixtures::facts_of_creation(needs.clone());
        facts.creation.as_mut().unwrap().proven_devices = proven;
        let Ok(Plan::Create { clone, then }) = plan::plan(&vm, &facts) else { panic!() };
        assert_eq!((clone.spec.power_on, then.len()), (powered_on, 0), "{proven:?}");
        let notes = notes_of(&clone);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(note.is_none_or(|note| notes[0] == note), "{notes:?}");
    }
}

#[test]
fn all_that_is_missing_is_reported_at_once() {
    let unmet = |what: &str| Unmet::wrong("Missing", format!("{what} is missing"));
    let needs = Needs {
        class: Err(unmet("class")),
        image: Err(Unmet::underway("Deploying", "image is being deployed")),
        nics: Err(unmet("network")),
        ..fixtures::needs()
    };
    let facts = fixtures::facts_of_creation(needs);
    let (plan, shown) = planned_from(&fixtures::virtual_machine(), &facts);
    assert_eq!(plan.unwrap_err().to_string(), "class is missing");
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn what_only_takes_time_comes_last() {
    let needs = Needs {
        class: Err(Unmet::underway("Later", "class comes")),
        placement: Err(Unmet::wrong("Missing", "place is missing")),
        ..fixtures::needs()
    };
    let messages: Vec<_> = needs.unmet().map(|unmet| unmet.message.as_str()).collect();
    assert_eq!(messages, ["place is missing", "class comes"]);
}

#[test]
fn another_ones_vm_is_refused_with_what_and_who() {
    let claim = TakenIdentity {
        what: "instance UUID 4237".into(),
        holder: Some("db (vm-3, without an owner)".into()),
    };
    let (plan, shown) = planned(&fixtures::virtual_machine(), Found::Claimed(claim), None);
    assert!(matches!(plan, Err(Blocked::Claimed(_))));
    insta::assert_snapshot!(shown.join("\n"));
}

fn running() -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    let mut facts = fixtures::facts(Found::Ours(Arc::new(fixtures::addressed_vm())));
    facts.runtime.probe = Some(ProbeResult::Answers);
    vm.status = Some(compute_status(&vm, Some(&facts), &Outcome::Done(None)));
    vm
}

#[test]
fn a_running_vm_is_ready_and_unchanged() {
    let vm = running();
    let found = Found::Ours(Arc::new(fixtures::addressed_vm()));
    let (plan, shown) = planned(&vm, found, Some(ProbeResult::Answers));
    assert_eq!(plan, Ok(Plan::Settled));
    insta::assert_snapshot!(shown.join("\n"));
    let mut shown = vm.status.unwrap();
    shown.conditions.clear();
    insta::assert_yaml_snapshot!(shown);
}

#[test]
fn readiness_follows_power_address_and_probe() {
    let ready = |change: fn(&mut Vm), probe: Option<ProbeResult>| {
        let mut vsphere_vm = fixtures::addressed_vm();
        change(&mut vsphere_vm);
        planned(&fixtures::virtual_machine(), Found::Ours(Arc::new(vsphere_vm)), probe).1.remove(0)
    };
    let shown = [
        ready(|_| {}, None),
        ready(|_| {}, Some(ProbeResult::Unknown)),
        ready(|_| {}, Some(ProbeResult::NoAnswer("connection refused".into()))),
        ready(|vsphere_vm| vsphere_vm.guest.ip = None, None),
        ready(|vsphere_vm| vsphere_vm.guest.ip = Some("169.254.1.1".into()), None),
        ready(|vsphere_vm| vsphere_vm.power_state = Some(PowerState::Off), None),
        ready(
            |vsphere_vm| {
                (vsphere_vm.power_state, vsphere_vm.connection_state) = (None, "inaccessible".into());
            },
            None,
        ),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_vm_that_was_there_is_not_made_again() {
    let mut vm = running();
    let (plan, shown) = planned(&vm, Found::Lost(loss_message(&vm, None)), None);
    assert_eq!(plan, Err(Blocked::Lost(loss_message(&vm, None))));
    insta::assert_snapshot!(shown.join("\n"));
    assert!(existed(&vm));
    vm.status = None;
    assert!(!existed(&vm));
    // A move loses the status and keeps the annotation.
    vm.metadata.annotations = Some([(annotation::FIRST_BOOT_DONE.to_owned(), "true".to_owned())].into());
    assert!(existed(&vm));
}

/// If the lost VM kept its address, other VMs couldn't use the address after a DHCP server assigns it again.
#[test]
fn a_vm_that_vcenter_lost_keeps_no_address() {
    let mut vm = running();
    let found = Found::Lost(loss_message(&vm, None));
    let given = vm.status.as_mut().unwrap();
    given.endpoint_addresses = vec!["10.1.0.9".to_owned()];
    let lost = compute_status(&vm, Some(&fixtures::facts(found)), &Outcome::Done(None));
    assert_eq!((lost.endpoint_addresses, lost.kept_addresses), (Vec::new(), Vec::new()));
}

#[test]
fn an_old_view_of_a_vm_decides_otherwise() {
    let seen = running();
    let decides = |change: fn(&mut VirtualMachine)| {
        let mut live = running();
        change(&mut live);
        decisive_state(&live) == decisive_state(&seen)
    };
    assert!(decides(|vm| vm.metadata.resource_version = Some("99".to_owned())));
    assert!(!decides(|vm| vm.metadata.generation = Some(99)));
    assert!(!decides(|vm| vm.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH))));
    assert!(!decides(|vm| (vm.status, vm.metadata.annotations) = (None, None)));
}

#[test]
fn while_vcenter_is_away_a_vm_is_what_it_was() {
    let away = || Found::Unknown(Problem::new("vCenter vc:443: can't be reached. Check the network"));
    let vm = running();
    let facts = fixtures::facts(away());
    let error = Error::from(plan::plan(&vm, &facts).unwrap_err());
    assert_eq!(Some(compute_status(&vm, Some(&facts), &Outcome::Stopped(&error))), vm.status);

    let mut asked = vm.clone();
    asked.spec.power_state = Some("poweredOff".into());
    insta::assert_snapshot!(planned(&asked, away(), None).1.join("\n"));
    insta::assert_snapshot!(planned(&fixtures::virtual_machine(), away(), None).1.join("\n"));
}

#[test]
fn a_vm_out_of_reach_is_what_it_was_and_only_its_probe_knows_better() {
    let mut vsphere_vm = fixtures::addressed_vm();
    vsphere_vm.connection_state = "inaccessible".into();
    vsphere_vm.power_state = Some(PowerState::Off);
    let found = || Found::Unavailable(Arc::new(vsphere_vm.clone()));
    let vm = running();
    let (plan, answers) = planned(&vm, found(), Some(ProbeResult::Answers));
    assert!(matches!(plan, Err(Blocked::Unavailable(_))));
    let refused = planned(&vm, found(), Some(ProbeResult::NoAnswer("connection refused".into()))).1;
    let unseen = planned(&fixtures::virtual_machine(), found(), None).1;
    assert_eq!(answers[0], "Ready | True");
    assert_eq!(refused[0], "Ready | False | Info | NotReady | The readiness probe fails: connection refused");
    let starts = |lines: &[String], start: &str| lines.iter().any(|line| line.starts_with(start));
    let inaccessible =
        "Unknown | Unreachable | VM cp-0 (vm-8) is inaccessible: its files can't be read. Check";
    assert!(starts(&answers, &format!("VirtualMachinePowerStateSynced | {inaccessible}")), "{answers:?}");
    assert!(starts(&answers, "VirtualMachineCreated | True"), "{answers:?}");
    assert!(starts(&unseen, &format!("VirtualMachineCreated | {inaccessible}")), "{unseen:?}");
    assert!(unseen[0].starts_with("Ready | Unknown | Unreachable"), "{unseen:?}");
    let facts = fixtures::facts(found());
    let error = Error::from(plan.unwrap_err());
    let shown = compute_status(&vm, Some(&facts), &Outcome::Stopped(&error));
    let before = vm.status.unwrap();
    assert_eq!(
        (shown.vm_ip, shown.power_state, shown.bios_uuid),
        (before.vm_ip, before.power_state, before.bios_uuid)
    );
}

#[test]
fn power_is_brought_to_what_the_spec_says() {
    use PowerState::{Off, On, Suspended};
    for (wanted, is, plan) in [
        (Some("poweredOn"), Some(Off), Some(On)),
        (None, Some(Suspended), Some(On)),
        (Some("poweredOff"), Some(On), Some(Off)),
        (Some("suspended"), Some(On), Some(Suspended)),
        (Some("suspended"), Some(Off), None),
        (Some("poweredOn"), Some(On), None),
        (Some("poweredOn"), None, None),
    ] {
        let mut vm = fixtures::virtual_machine();
        vm.spec.power_state = wanted.map(str::to_owned);
        let mut vsphere_vm = fixtures::vsphere_vm();
        vsphere_vm.power_state = is;
        let vsphere_vm = Arc::new(vsphere_vm);
        let expected = plan.map_or(Plan::Settled, |state| Plan::Change {
            vsphere_vm: Arc::clone(&vsphere_vm),
            steps: vec![Step::Power(state, PowerMode::Hard)],
        });
        assert_eq!(planned(&vm, Found::Ours(vsphere_vm), None).0, Ok(expected), "{wanted:?} {is:?}");
    }
}

#[test]
fn a_fault_of_vcenter_is_reported_with_advice() {
    let fault = vsphere::Fault {
        type_name: "InsufficientMemoryResourcesFault".into(),
        message: "No memory.".into(),
        detail: vsphere::Value::Null,
    };
    let error = Error::Vcenter(vsphere::Error::from_fault("CloneVM_Task", fault).on("cp-0"));
    let facts = fixtures::facts_of_creation(fixtures::needs());
    let shown = compute_status(&fixtures::virtual_machine(), Some(&facts), &Outcome::Stopped(&error));
    insta::assert_snapshot!(lines(&shown.conditions).join("\n"));
    assert_eq!(shown.phase.as_deref(), Some("Creating"));
}

#[test]
fn uuids_are_completed_once_and_bad_ones_named() {
    let drawn = Uuid::from_u128(7);
    let mut vm = fixtures::virtual_machine();
    let given = parse_identity(&vm).unwrap().unwrap();
    assert_eq!(complete_identity(&vm, drawn), Ok(given));
    vm.spec.instance_uuid = None;
    assert_eq!(parse_identity(&vm), Ok(None));
    assert_eq!(complete_identity(&vm, drawn).unwrap().instance, given.bios);
    vm.spec.bios_uuid = Some(String::new());
    assert_eq!(complete_identity(&vm, drawn).unwrap().bios, drawn);
    vm.spec.bios_uuid = Some("42".into());
    let error = parse_identity(&vm).unwrap_err().to_string();
    assert_eq!(error, "spec.biosUUID \"42\" is not a UUID. Correct it, or leave it out");
}

#[test]
fn nics_are_reconnected_swapped_added_and_removed() {
    let nic = |kind| Nic::plain(kind, vsphere::Backing::Network { name: "n".into(), network: None });
    let present = |keys: &[(i32, NicKind)]| {
        keys.iter().map(|(key, kind)| fixtures::virtual_nic(*key, *kind)).collect::<Vec<_>>()
    };
    let changes = |present: &[VirtualNic], wanted: &[Nic]| {
        let nics = clone_nics(present, wanted, false);
        let backings = nics.backings.iter().map(|nic| format!("connect {}", nic.key));
        let words = nics.changes.iter().map(|change| match change {
            vsphere::DeviceChange::Edit(nic) => format!("edit {}", nic.key),
            vsphere::DeviceChange::Add(nic) => format!("add {}", nic.key),
            vsphere::DeviceChange::Remove(nic) => format!("remove {}", nic.key),
            vsphere::DeviceChange::Disk(_) => "disk".to_owned(),
            vsphere::DeviceChange::Other { .. } => "other".to_owned(),
        });
        backings.chain(words).collect::<Vec<_>>().join(", ")
    };
    let two = present(&[(4000, Vmxnet3), (4001, E1000)]);
    assert_eq!(changes(&two, &[nic(Vmxnet3)]), "connect 4000, remove 4001");
    assert_eq!(changes(&two, &[nic(E1000), nic(E1000)]), "connect 4001, remove 4000, add -100");
    assert_eq!(changes(&[], &[nic(Vmxnet3), nic(Vmxnet3)]), "add -100, add -101");
    assert_eq!(changes(&two, &[]), "");
    let addressed = Nic { mac: Some("00:50:56:aa:00:01".into()), ..nic(Vmxnet3) };
    assert_eq!(changes(&two[..1], &[addressed]), "connect 4000, edit 4000");
    let off = [VirtualNic { connects: false, ..two[0].clone() }];
    assert_eq!(changes(&off, &[nic(Vmxnet3)]), "connect 4000, edit 4000");
    let none = clone_nics(&two, &[], true).changes;
    assert!(none.len() == 2 && none.iter().all(|change| matches!(change, vsphere::DeviceChange::Remove(_))));
}

#[test]
fn reservations_are_megahertz_and_mebibytes() {
    let class = |cpu: &str| -> api::vmop::VirtualMachineClass {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "c"},
            "spec": {
                "hardware": {"cpus": 2, "memory": "4Gi"},
                "policies": {"resources": {"requests": {"cpu": cpu, "memory": "4Gi"}, "limits": {"cpu": 0}}},
            },
        }))
        .unwrap()
    };
    for (cpu, cores, mhz) in [("2000m", true, Some(4588)), ("2000M", false, Some(2000)), ("0", false, None)] {
        let class = class(cpu);
        assert_eq!(class::counts_cores(&class), cores, "{cpu}");
        let size = class::parse_size(&class, 2294).unwrap();
        assert_eq!((size.cpu.reservation, size.cpu.limit), (mhz, None), "{cpu}");
        assert_eq!(size.memory.reservation, Some(4096), "{cpu}");
    }
    let message = class::parse_size(&class("two"), 1).unwrap_err().message;
    assert!(message.contains("VirtualMachineClass c: spec.policies"), "{message}");
}

#[test]
fn the_built_in_classes_are_sizes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/vmop/classes.yaml");
    let yaml = std::fs::read_to_string(path).unwrap();
    let classes: Vec<api::vmop::VirtualMachineClass> = serde_saphyr::from_multiple(&yaml).unwrap();
    let shown = classes.iter().map(|class| {
        let size = class::parse_size(class, 1000).unwrap();
        let name = class.metadata.name.clone().unwrap();
        format!(
            "{name}: {} {} {:?} {:?}",
            size.cpus, size.memory_mib, size.cpu.reservation, size.memory.reservation
        )
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

proptest! {
    /// A VM that matches its plan doesn't need changes, and its status doesn't change when it is computed again.
    #[test]
    fn a_plan_of_what_is_so_is_empty(on in any::<bool>(), ip in any::<bool>(), answers in any::<bool>()) {
        let mut vm = fixtures::virtual_machine();
        vm.spec.power_state = Some(if on { "poweredOn" } else { "poweredOff" }.into());
        let mut facts = fixtures::facts_of_creation(fixtures::needs());
        let Ok(Plan::Create { clone, then }) = plan::plan(&vm, &facts) else { panic!("no clone") };
        prop_assert!(then.is_empty());
        let mut vsphere_vm = fixtures::unmarked_vm("vm-8", &clone.name);
        let config = clone.spec.config.unwrap();
        vsphere_vm.extra_config.extend(config.extra_config);
        vsphere_vm.power_state = Some(if clone.spec.power_on { PowerState::On } else { PowerState::Off });
        vsphere_vm.guest.ip = ip.then(|| "10.1.2.3".to_owned());
        prop_assert!(facts.mark.is_on(&vsphere_vm));
        facts.found = Found::Ours(Arc::new(vsphere_vm));
        facts.creation = None;
        facts.runtime.probe = Some(if answers { ProbeResult::Answers } else { ProbeResult::Unknown });
        prop_assert_eq!(plan::plan(&vm, &facts), Ok(Plan::Settled));
        vm.status = Some(compute_status(&vm, Some(&facts), &Outcome::Done(None)));
        prop_assert_eq!(Some(compute_status(&vm, Some(&facts), &Outcome::Done(None))), vm.status.clone());
        let ready = conditions::holds(&vm.status.unwrap().conditions, conditions::READY);
        prop_assert_eq!(ready, on && ip && answers);
    }
}
