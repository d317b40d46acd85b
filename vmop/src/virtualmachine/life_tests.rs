//! What is done to a machine that is there, and what is said of it meanwhile.

use std::sync::Arc;

use api::conditions::Condition;
use api::names::annotation;
use api::vmop::{VirtualMachine, VirtualMachineAdvancedOptions};
use proptest::prelude::*;
use vsphere::Vm;
use vsphere::inventory::{Customized, PowerState, ToolsState};

use crate::testing::fixtures;
use crate::vcenter::settings::PromoteDisks;
use crate::vcenter::{Placement, mark};
use crate::virtualmachine::plan;
use crate::virtualmachine::plan::{Facts, Found, Plan};
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::status::{Outcome, status};
use crate::virtualmachine::step;
use crate::virtualmachine::step::{Mode, Step};
use crate::virtualmachine::storage::promotion;
use crate::virtualmachine::storage::promotion::{Promotion, State};

/// A machine that has its class's size, and what is known of it.
fn settled() -> (VirtualMachine, Vm, Facts) {
    let size = fixtures::needs().class.unwrap();
    let mut machine = fixtures::vsphere_vm();
    (machine.cpu_allocation, machine.memory_allocation) = (size.cpu, size.memory);
    machine.guest.ip = Some("10.1.2.3".into());
    machine.guest.tools = Some(ToolsState::Running);
    let mut facts = fixtures::facts(Found::Lost(None));
    facts.size = Some(size);
    facts.place = Some(fixtures::place());
    (fixtures::virtual_machine(), machine, facts)
}

fn steps(vm: &VirtualMachine, machine: &Vm, facts: &Facts) -> Vec<Step> {
    let facts = Facts { found: Found::Ours(Arc::new(machine.clone())), ..facts.clone() };
    match plan::plan(vm, &facts).unwrap() {
        Plan::Change { steps, .. } => steps,
        Plan::Settled => Vec::new(),
        Plan::Make { .. } => panic!("it is there"),
    }
}

fn words(vm: &VirtualMachine, machine: &Vm, facts: &Facts) -> String {
    steps(vm, machine, facts).iter().map(Step::word).collect::<Vec<_>>().join(", ")
}

fn annotate(vm: &mut VirtualMachine, key: &str, value: &str) {
    vm.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// What is said beside and of power, one line each.
fn said(vm: &VirtualMachine, machine: &Vm, facts: &Facts, types: &[&str]) -> String {
    let facts = Facts { found: Found::Ours(Arc::new(machine.clone())), ..facts.clone() };
    let status = status(vm, Some(&facts), &Outcome::Done(None));
    let wanted = |condition: &&Condition| types.contains(&condition.type_.as_str());
    status.conditions.iter().filter(wanted).map(fixtures::condition_line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_needs_a_machine_that_is_off_is_done_between_its_end_and_its_start() {
    use PowerState::{Off, On, Suspended};
    let (mut vm, mut machine, mut facts) = settled();
    vm.spec.min_hardware_version = Some(21);
    vm.spec.next_restart_time = Some("2026-11-21T12:00:00Z".into());
    annotate(&mut vm, annotation::LAST_RESIZED_CLASS, r#"{"name":"another"}"#);
    facts.size = facts.size.map(|size| Size { cpus: 8, ..size });
    facts.module = Ok(Some("module-1".into()));
    for (wanted, is, todo) in [
        ("poweredOn", Some(Off), "reconfigure, upgrade, reconfigure, join, power on"),
        ("poweredOn", Some(On), "join, restart"),
        ("poweredOn", Some(Suspended), "power on"),
        ("poweredOff", Some(On), "power off, reconfigure, upgrade"),
        ("poweredOff", Some(Suspended), "power off, reconfigure, upgrade"),
        ("poweredOff", Some(Off), "reconfigure, upgrade"),
        ("suspended", Some(On), "suspend"),
        ("suspended", Some(Suspended), ""),
        ("suspended", Some(Off), "reconfigure, upgrade"),
        ("poweredOn", None, ""),
    ] {
        vm.spec.power_state = Some(wanted.into());
        machine.power_state = is;
        assert_eq!(words(&vm, &machine, &facts), todo, "{wanted} {is:?}");
    }
}

#[test]
fn a_check_holds_power_on_back_and_an_admin_everything() {
    let (mut vm, mut machine, facts) = settled();
    machine.power_state = Some(PowerState::Off);
    assert_eq!(words(&vm, &machine, &facts), "power on");
    annotate(&mut vm, "poweron.check.vmoperator.vmware.com/backup", "not yet");
    assert_eq!(words(&vm, &machine, &facts), "");
    let held = said(&vm, &machine, &facts, &["VirtualMachinePowerStateSynced"]);
    vm.metadata.annotations = None;
    machine.extra_config.insert("vmservice.virtualmachine.pause".into(), "TRUE".into());
    assert_eq!(words(&vm, &machine, &facts), "");
    let paused = said(&vm, &machine, &facts, &["VirtualMachineReconcileReady"]);
    insta::assert_snapshot!(format!("{held}\n{paused}"));
}

#[test]
fn a_soft_end_says_what_it_waits_for() {
    let (mut vm, mut machine, facts) = settled();
    vm.spec.power_state = Some("poweredOff".into());
    let mut lines = Vec::new();
    for (mode, tools) in [("soft", true), ("soft", false), ("trySoft", true), ("trySoft", false)] {
        vm.spec.power_off_mode = Some(mode.into());
        machine.guest.tools = Some(if tools { ToolsState::Running } else { ToolsState::NotRunning });
        assert_eq!(
            steps(&vm, &machine, &facts),
            [Step::Power(PowerState::Off, Mode::of(Some(mode)))],
            "{mode}"
        );
        lines.push(said(&vm, &machine, &facts, &["VirtualMachinePowerStateSynced"]));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_is_said_beside_leaves_a_machine_ready() {
    let beside = [
        "Ready",
        "VirtualMachineTools",
        "GuestCustomization",
        "GuestBootstrap",
        "VirtualMachineClassConfigurationSynced",
        "VirtualMachineComputeConfigSynced",
        "VirtualMachineLocationValid",
        "VirtualMachineRestarted",
        "Backup",
    ];
    let (vm, machine, facts) = settled();
    let well = said(&vm, &machine, &facts, &beside);
    let (mut vm, mut machine, mut facts) = settled();
    vm.spec.min_hardware_version = Some(21);
    vm.spec.next_restart_time = Some("2026-11-21T12:00:00Z".into());
    vm.spec.restart_mode = Some("soft".into());
    annotate(&mut vm, "condition.vmoperator.vmware.com.protected/Backup", "Backup;False;Late;It is late");
    annotate(&mut vm, "condition.vmoperator.vmware.com.protected/Ready", "Ready;False;No;never");
    machine.guest.tools = Some(ToolsState::NotRunning);
    machine.guest.customization =
        Some(Customized { status: "TOOLSDEPLOYPKG_FAILED".into(), error: Some("no network card".into()) });
    machine
        .extra_config
        .insert("guestinfo.vmservice.bootstrap.condition".into(), "false,Disk,the disk is full".into());
    facts.size = facts.size.map(|size| Size { memory_mib: 8192, ..size });
    facts.place = Some(Placement { pool: vsphere::MoRef::pool("resgroup-1"), ..fixtures::place() });
    let ill = said(&vm, &machine, &facts, &beside);
    insta::assert_snapshot!(format!("{well}\n\n{ill}"));
}

#[test]
fn linked_disks_are_promoted_in_the_power_state_that_was_asked_for() {
    use PowerState::{Off, On};
    let (mut vm, mut machine, facts) = settled();
    machine.extra_config.insert(mark::BASE.into(), "photon-x".into());
    let disks = vec![vsphere::Disk::default()];
    let told = |mode, state| Facts { promotion: Some(Promotion { mode, state }), ..facts.clone() };
    let due = |vm: &VirtualMachine, machine: &Vm, mode| {
        let facts = told(mode, State::Due(disks.clone()));
        let facts = Facts { found: Found::Ours(Arc::new(machine.clone())), ..facts };
        promotion::due(vm, &facts).is_some()
    };
    for (wanted, is, online, offline) in [
        ("poweredOn", On, true, false),
        ("poweredOn", Off, false, false),
        ("poweredOff", On, false, false),
        ("poweredOff", Off, false, true),
    ] {
        vm.spec.power_state = Some(wanted.into());
        machine.power_state = Some(is);
        let promotes = (due(&vm, &machine, PromoteDisks::Online), due(&vm, &machine, PromoteDisks::Offline));
        assert_eq!(promotes, (online, offline), "{wanted} {is:?}");
    }
    (vm.spec.power_state, machine.power_state) = (None, Some(On));
    let say = |state, mode| said(&vm, &machine, &told(mode, state), &["VirtualMachineDiskPromotionSynced"]);
    let lines = [
        say(State::Due(disks.clone()), PromoteDisks::Online),
        say(State::Due(disks.clone()), PromoteDisks::Offline),
        say(State::Running, PromoteDisks::Online),
        say(State::Snapshots, PromoteDisks::Online),
        say(State::Passing("vCenter is away".into()), PromoteDisks::Online),
        say(State::Failed("No space is left".into()), PromoteDisks::Online),
        say(State::Done, PromoteDisks::Online),
    ];
    insta::assert_snapshot!(lines.join("\n"));

    // Only the word of it is left to be taken back, once.
    let unnoted = told(PromoteDisks::Online, State::Unnoted);
    let steps = steps(&vm, &machine, &unnoted);
    assert_eq!(steps.iter().map(Step::word).collect::<Vec<_>>(), ["reconfigure"]);
    done(&mut machine, &steps[0]);
    assert_eq!((mark::base(&machine), words(&vm, &machine, &unnoted)), (None, String::new()));
    machine.extra_config.insert("vmservice.virtualmachine.pause".into(), "true".into());
    assert!(!due(&vm, &machine, PromoteDisks::Online), "an admin had it left alone");
}

/// The machine as it is once the step is carried out.
fn done(machine: &mut Vm, step: &Step) {
    match step {
        Step::Reconfigure(spec) => {
            machine.num_cpus = spec.num_cpus.unwrap_or(machine.num_cpus);
            machine.memory_mib = spec.memory_mib.map_or(machine.memory_mib, |mib| mib.try_into().unwrap());
            machine.cpu_allocation = spec.cpu_allocation.unwrap_or(machine.cpu_allocation);
            machine.memory_allocation = spec.memory_allocation.unwrap_or(machine.memory_allocation);
            machine.change_tracking = spec.change_tracking_enabled.or(machine.change_tracking);
            machine.extra_config.extend(spec.extra_config.iter().cloned());
        }
        Step::Upgrade(version) => machine.hardware_version = format!("vmx-{version}"),
        Step::Power(state, _) => machine.power_state = Some(*state),
        Step::Restart(_, at) => machine.extra_config.extend([step::restarted(*at)]),
        Step::Customize(_) | Step::Join(_) => {}
    }
}

proptest! {
    /// However far a pass comes before it is cut short, the next ones bring the machine to where nothing is left to do.
    #[test]
    fn a_plan_cut_short_is_taken_up_and_comes_to_an_end(
        wanted in prop::sample::select(vec!["poweredOn", "poweredOff", "suspended"]),
        is in prop::sample::select(vec![PowerState::On, PowerState::Off, PowerState::Suspended]),
        mode in prop::sample::select(vec!["hard", "soft", "trySoft"]),
        (cpus, version, tracked, restart, renamed) in
            (1u32..9, 13i32..22, any::<bool>(), any::<bool>(), any::<bool>()),
        cuts in prop::collection::vec(0usize..4, 4),
    ) {
        let (mut vm, mut machine, mut facts) = settled();
        vm.spec.power_state = Some(wanted.into());
        vm.spec.power_off_mode = Some(mode.into());
        vm.spec.suspend_mode = Some(mode.into());
        vm.spec.min_hardware_version = Some(version);
        vm.spec.next_restart_time = restart.then(|| "2026-11-21T12:00:00Z".to_owned());
        vm.spec.advanced_options = Some(VirtualMachineAdvancedOptions {
            change_block_tracking: Some(tracked),
            ..VirtualMachineAdvancedOptions::default()
        });
        if renamed {
            annotate(&mut vm, annotation::LAST_RESIZED_CLASS, r#"{"name":"another"}"#);
        }
        facts.size = facts.size.map(|size| Size { cpus, ..size });
        machine.power_state = Some(is);
        for cut in cuts.into_iter().chain([usize::MAX, usize::MAX]) {
            let planned = steps(&vm, &machine, &facts);
            planned.iter().take(cut).for_each(|step| done(&mut machine, step));
        }
        prop_assert_eq!(steps(&vm, &machine, &facts), Vec::<Step>::new());
    }
}
