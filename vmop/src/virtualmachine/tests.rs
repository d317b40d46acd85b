//! Plan and status together: what is done for a machine, and what is said of it.

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

use crate::probe::ProbeResult;
use crate::testing::fixtures;
use crate::unmet::Unmet;
use crate::vcenter::Problem;
use crate::virtualmachine::needs::Needs;
use crate::virtualmachine::nic::nic;
use crate::virtualmachine::plan;
use crate::virtualmachine::plan::{Blocked, Claim, Found, Nothing, Plan};
use crate::virtualmachine::size::class;
use crate::virtualmachine::status::{Outcome, status};
use crate::virtualmachine::step::{Mode, Step};
use crate::virtualmachine::{Error, clone};

fn nothing(needs: Needs) -> Found {
    Found::Nothing(Box::new(Nothing { needs, asks: Vec::new(), direct: false }))
}

/// What is planned and said of `vm` when vCenter has this of it: one line per condition.
fn told(
    vm: &VirtualMachine,
    found: Found,
    probe: Option<ProbeResult>,
) -> (Result<Plan, Blocked>, Vec<String>) {
    let mut facts = fixtures::facts(found);
    facts.probe = probe;
    let plan = plan::plan(vm, &facts);
    let error = plan.clone().err().map(Error::from);
    let outcome = error.as_ref().map_or(Outcome::Done(None), Outcome::Stopped);
    let status = status(vm, Some(&facts), &outcome);
    (plan, lines(&status.conditions))
}

fn lines(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(fixtures::condition_line).collect()
}

#[test]
fn a_machine_is_made_by_one_clone_with_everything_in_it() {
    let (plan, _) = told(&fixtures::virtual_machine(), nothing(fixtures::needs()), None);
    insta::assert_debug_snapshot!(plan.unwrap());
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let unmet = |what: &str| Unmet::wrong("Missing", format!("{what} is missing"));
    let needs = Needs {
        class: Err(unmet("class")),
        image: Err(Unmet::underway("Deploying", "image is being deployed")),
        network: Err(unmet("network")),
        ..fixtures::needs()
    };
    let (plan, said) = told(&fixtures::virtual_machine(), nothing(needs), None);
    assert_eq!(plan.unwrap_err().to_string(), "class is missing");
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn what_only_takes_time_comes_last() {
    let needs = Needs {
        class: Err(Unmet::underway("Later", "class comes")),
        place: Err(Unmet::wrong("Missing", "place is missing")),
        ..fixtures::needs()
    };
    assert_eq!(
        needs.unmet().map(|unmet| unmet.message.as_str()).collect::<Vec<_>>(),
        ["place is missing", "class comes"]
    );
}

#[test]
fn another_ones_machine_is_refused_with_what_and_who() {
    let claim = Claim { what: "instance UUID 4237".into(), holder: "db (vm-3, without an owner)".into() };
    let (plan, said) = told(&fixtures::virtual_machine(), Found::Anothers(claim), None);
    assert!(matches!(plan, Err(Blocked::Claimed(_))));
    insta::assert_snapshot!(said.join("\n"));
}

fn running() -> VirtualMachine {
    let mut vm = fixtures::virtual_machine();
    let mut machine = fixtures::vsphere_vm();
    machine.guest.ip = Some("10.1.2.3".into());
    let mut facts = fixtures::facts(Found::Ours(Arc::new(machine)));
    facts.probe = Some(ProbeResult::Answers);
    vm.status = Some(status(&vm, Some(&facts), &Outcome::Done(None)));
    vm
}

#[test]
fn a_running_machine_is_ready_and_left_alone() {
    let mut machine = fixtures::vsphere_vm();
    machine.guest.ip = Some("10.1.2.3".into());
    let vm = running();
    let (plan, said) = told(&vm, Found::Ours(Arc::new(machine)), Some(ProbeResult::Answers));
    assert_eq!(plan, Ok(Plan::Settled));
    insta::assert_snapshot!(said.join("\n"));
    let mut shown = vm.status.unwrap();
    shown.conditions.clear();
    insta::assert_yaml_snapshot!(shown);
}

#[test]
fn readiness_follows_power_address_and_probe() {
    let ready = |change: fn(&mut Vm), probe: Option<ProbeResult>| {
        let mut machine = fixtures::vsphere_vm();
        machine.guest.ip = Some("10.1.2.3".into());
        change(&mut machine);
        told(&fixtures::virtual_machine(), Found::Ours(Arc::new(machine)), probe).1.remove(0)
    };
    let said = [
        ready(|_| {}, None),
        ready(|_| {}, Some(ProbeResult::Unknown)),
        ready(|_| {}, Some(ProbeResult::NoAnswer("connection refused".into()))),
        ready(|machine| machine.guest.ip = None, None),
        ready(|machine| machine.guest.ip = Some("169.254.1.1".into()), None),
        ready(|machine| machine.power_state = Some(PowerState::Off), None),
        ready(
            |machine| (machine.power_state, machine.connection_state) = (None, "inaccessible".into()),
            None,
        ),
    ];
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_machine_that_was_there_is_not_made_again() {
    let mut vm = running();
    let (plan, said) = told(&vm, Found::Lost(None), None);
    assert_eq!(plan, Err(Blocked::Lost(None)));
    insta::assert_snapshot!(said.join("\n"));
    assert!(plan::existed(&vm));
    vm.status = None;
    assert!(!plan::existed(&vm));
    // Status is lost in a move; the annotation travels.
    vm.metadata.annotations = Some([(annotation::FIRST_BOOT_DONE.to_owned(), "true".to_owned())].into());
    assert!(plan::existed(&vm));
}

#[test]
fn an_old_view_of_a_machine_decides_otherwise() {
    let seen = running();
    let decides = |change: fn(&mut VirtualMachine)| {
        let mut live = running();
        change(&mut live);
        plan::decides(&live) == plan::decides(&seen)
    };
    assert!(decides(|vm| vm.metadata.resource_version = Some("99".to_owned())));
    assert!(!decides(|vm| vm.metadata.generation = Some(99)));
    assert!(!decides(|vm| vm.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH))));
    assert!(!decides(|vm| (vm.status, vm.metadata.annotations) = (None, None)));
}

#[test]
fn while_vcenter_is_away_a_machine_is_what_it_was() {
    let away = || Found::Unknown(Problem::new("vCenter vc:443: can't be reached. Check the network"));
    let vm = running();
    let facts = fixtures::facts(away());
    let error = Error::from(plan::plan(&vm, &facts).unwrap_err());
    assert_eq!(Some(status(&vm, Some(&facts), &Outcome::Stopped(&error))), vm.status);

    let mut asked = vm.clone();
    asked.spec.power_state = Some("poweredOff".into());
    insta::assert_snapshot!(told(&asked, away(), None).1.join("\n"));
    insta::assert_snapshot!(told(&fixtures::virtual_machine(), away(), None).1.join("\n"));
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
        let mut machine = fixtures::vsphere_vm();
        machine.power_state = is;
        let machine = Arc::new(machine);
        let expected = plan.map_or(Plan::Settled, |state| Plan::Change {
            machine: Arc::clone(&machine),
            steps: vec![Step::Power(state, Mode::Hard)],
        });
        assert_eq!(told(&vm, Found::Ours(machine), None).0, Ok(expected), "{wanted:?} {is:?}");
    }
}

#[test]
fn a_fault_of_vcenter_is_told_with_advice() {
    let fault = vsphere::Fault {
        type_name: "InsufficientMemoryResourcesFault".into(),
        message: "No memory.".into(),
        detail: vsphere::Value::Null,
    };
    let error = Error::Vcenter(vsphere::Error::from_fault("CloneVM_Task", fault).on("cp-0"));
    let facts = fixtures::facts(nothing(fixtures::needs()));
    let said = status(&fixtures::virtual_machine(), Some(&facts), &Outcome::Stopped(&error));
    insta::assert_snapshot!(lines(&said.conditions).join("\n"));
    assert_eq!(said.phase.as_deref(), Some("Creating"));
}

#[test]
fn uuids_are_completed_once_and_bad_ones_named() {
    let drawn = Uuid::from_u128(7);
    let mut vm = fixtures::virtual_machine();
    let given = plan::identity(&vm).unwrap().unwrap();
    assert_eq!(plan::completed(&vm, drawn), Ok(given));
    vm.spec.instance_uuid = None;
    assert_eq!(plan::identity(&vm), Ok(None));
    assert_eq!(plan::completed(&vm, drawn).unwrap().instance, given.bios);
    vm.spec.bios_uuid = Some(String::new());
    assert_eq!(plan::completed(&vm, drawn).unwrap().bios, drawn);
    vm.spec.bios_uuid = Some("42".into());
    assert_eq!(
        plan::identity(&vm).unwrap_err().to_string(),
        "spec.biosUUID \"42\" is not a UUID. Correct it, or leave it out"
    );
}

#[test]
fn cards_are_replugged_swapped_added_and_removed() {
    let card = |kind| nic::Card::plain(kind, vsphere::Backing::Network { name: "n".into(), network: None });
    let present = |keys: &[(i32, NicKind)]| {
        let card = |(key, kind): &(i32, NicKind)| VirtualNic {
            key: *key,
            kind: *kind,
            backing: None,
            mac: None,
            address: None,
            external_id: None,
        };
        keys.iter().map(card).collect::<Vec<_>>()
    };
    let changes = |present: &[VirtualNic], wanted: &[nic::Card]| {
        let said = clone::cards(present, wanted, false).into_iter().map(|change| match change {
            vsphere::DeviceChange::Edit(card) => format!("edit {}", card.key),
            vsphere::DeviceChange::Add(card) => format!("add {}", card.key),
            vsphere::DeviceChange::Remove(card) => format!("remove {}", card.key),
            vsphere::DeviceChange::Disk(_) => "disk".to_owned(),
            vsphere::DeviceChange::Other { .. } => "other".to_owned(),
        });
        said.collect::<Vec<_>>().join(", ")
    };
    let two = present(&[(4000, Vmxnet3), (4001, E1000)]);
    assert_eq!(changes(&two, &[card(Vmxnet3)]), "edit 4000, remove 4001");
    assert_eq!(changes(&two, &[card(E1000), card(E1000)]), "remove 4000, add -100, edit 4001");
    assert_eq!(changes(&[], &[card(Vmxnet3), card(Vmxnet3)]), "add -100, add -200");
    assert_eq!(changes(&two, &[]), "");
    let none = clone::cards(&two, &[], true);
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
        let size = class::size(&class, 2294).unwrap();
        assert_eq!(
            (size.cpu.reservation, size.cpu.limit, size.memory.reservation),
            (mhz, None, Some(4096)),
            "{cpu}"
        );
    }
    assert!(
        class::size(&class("two"), 1).unwrap_err().message.contains("VirtualMachineClass c: spec.policies")
    );
}

#[test]
fn the_built_in_classes_are_sizes() {
    let yaml = include_str!("../../../config/vmop/classes.yaml");
    let classes: Vec<api::vmop::VirtualMachineClass> = serde_saphyr::from_multiple(yaml).unwrap();
    let said = classes.iter().map(|class| {
        let size = class::size(class, 1000).unwrap();
        let name = class.metadata.name.clone().unwrap();
        format!(
            "{name}: {} {} {:?} {:?}",
            size.cpus, size.memory_mib, size.cpu.reservation, size.memory.reservation
        )
    });
    insta::assert_snapshot!(said.collect::<Vec<_>>().join("\n"));
}

proptest! {
    /// A machine as the plan made it needs nothing more, and its status is the same however often it is computed.
    #[test]
    fn a_plan_of_what_is_so_is_empty(on in any::<bool>(), ip in any::<bool>(), answers in any::<bool>()) {
        let mut vm = fixtures::virtual_machine();
        vm.spec.power_state = Some(if on { "poweredOn" } else { "poweredOff" }.into());
        let mut facts = fixtures::facts(nothing(fixtures::needs()));
        let Ok(Plan::Make { clone, then }) = plan::plan(&vm, &facts) else { panic!("no clone") };
        prop_assert!(then.is_empty());
        let mut machine = fixtures::unmarked_vm("vm-8", &clone.name);
        let config = clone.spec.config.unwrap();
        machine.extra_config.extend(config.extra_config);
        machine.power_state = Some(if clone.spec.power_on { PowerState::On } else { PowerState::Off });
        machine.guest.ip = ip.then(|| "10.1.2.3".to_owned());
        prop_assert!(facts.mark.is_on(&machine));
        facts.found = Found::Ours(Arc::new(machine));
        facts.probe = Some(if answers { ProbeResult::Answers } else { ProbeResult::Unknown });
        prop_assert_eq!(plan::plan(&vm, &facts), Ok(Plan::Settled));
        vm.status = Some(status(&vm, Some(&facts), &Outcome::Done(None)));
        prop_assert_eq!(Some(status(&vm, Some(&facts), &Outcome::Done(None))), vm.status.clone());
        let ready = conditions::holds(&vm.status.unwrap().conditions, conditions::READY);
        prop_assert_eq!(ready, on && ip && answers);
    }
}
