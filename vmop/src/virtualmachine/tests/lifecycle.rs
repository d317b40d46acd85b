//! Tests the changes to an existing VM, and its conditions meanwhile.

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
use crate::virtualmachine::facts::Facts;
use crate::virtualmachine::identity::find::Found;
use crate::virtualmachine::placement::module::ModuleMembership;
use crate::virtualmachine::plan::{self, Plan};
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::status::{Outcome, compute_status};
use crate::virtualmachine::step::{self, PowerMode, Step};
use crate::virtualmachine::storage::promotion::{Promotion, PromotionState};

/// Returns a VM that has its class's size, and the facts about it.
fn settled() -> (VirtualMachine, Vm, Facts) {
    let size = fixtures::needs().class.unwrap();
    let mut vsphere_vm = fixtures::addressed_vm();
    (vsphere_vm.cpu_allocation, vsphere_vm.memory_allocation) = (size.cpu, size.memory);
    vsphere_vm.guest.tools = Some(ToolsState::Running);
    let mut facts = fixtures::facts(Found::Absent);
    facts.runtime.size = Some(size);
    facts.runtime.placement = Some(fixtures::place());
    (fixtures::virtual_machine(), vsphere_vm, facts)
}

fn steps(vm: &VirtualMachine, vsphere_vm: &Vm, facts: &Facts) -> Vec<Step> {
    let facts = Facts { found: Found::Ours(Arc::new(vsphere_vm.clone())), ..facts.clone() };
    match plan::plan(vm, &facts).unwrap() {
        Plan::Change { steps, .. } => steps,
        Plan::Settled => Vec::new(),
        Plan::Create { .. } => panic!("it exists"),
    }
}

fn words(vm: &VirtualMachine, vsphere_vm: &Vm, facts: &Facts) -> String {
    steps(vm, vsphere_vm, facts).iter().map(Step::word).collect::<Vec<_>>().join(", ")
}

fn annotate(vm: &mut VirtualMachine, key: &str, value: &str) {
    vm.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Formats the conditions with these types, one per line.
fn conditions(vm: &VirtualMachine, vsphere_vm: &Vm, facts: &Facts, types: &[&str]) -> String {
    let facts = Facts { found: Found::Ours(Arc::new(vsphere_vm.clone())), ..facts.clone() };
    let status = compute_status(vm, Some(&facts), &Outcome::Done(None));
    let wanted = |condition: &&Condition| types.contains(&condition.type_.as_ref());
    status.conditions.iter().filter(wanted).map(fixtures::condition_line).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_needs_a_vm_that_is_off_is_done_between_its_end_and_its_start() {
    use PowerState::{Off, On, Suspended};
    let (mut vm, mut vsphere_vm, mut facts) = settled();
    vm.spec.min_hardware_version = Some(21);
    vm.spec.next_restart_time = Some("2026-11-21T12:00:00Z".into());
    annotate(&mut vm, annotation::LAST_RESIZED_CLASS, r#"{"name":"another"}"#);
    facts.runtime.size = facts.runtime.size.map(|size| Size { cpus: 8, ..size });
    facts.membership = Ok(ModuleMembership { to_join: Some("module-1".into()), vanished: None });
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
        vsphere_vm.power_state = is;
        assert_eq!(words(&vm, &vsphere_vm, &facts), todo, "{wanted} {is:?}");
    }
}

#[test]
fn a_check_holds_power_on_back_and_an_admin_everything() {
    let (mut vm, mut vsphere_vm, facts) = settled();
    vsphere_vm.power_state = Some(PowerState::Off);
    assert_eq!(words(&vm, &vsphere_vm, &facts), "power on");
    annotate(&mut vm, "poweron.check.vmoperator.vmware.com/backup", "not yet");
    assert_eq!(words(&vm, &vsphere_vm, &facts), "");
    let held = conditions(&vm, &vsphere_vm, &facts, &["VirtualMachinePowerStateSynced"]);
    vm.metadata.annotations = None;
    vsphere_vm.extra_config.insert("vmservice.virtualmachine.pause".into(), "TRUE".into());
    assert_eq!(words(&vm, &vsphere_vm, &facts), "");
    let paused = conditions(&vm, &vsphere_vm, &facts, &["VirtualMachineReconcileReady"]);
    insta::assert_snapshot!(format!("{held}\n{paused}"));
}

#[test]
fn a_soft_end_says_what_it_waits_for() {
    let (mut vm, mut vsphere_vm, facts) = settled();
    vm.spec.power_state = Some("poweredOff".into());
    let mut lines = Vec::new();
    for (mode, tools) in [("soft", true), ("soft", false), ("trySoft", true), ("trySoft", false)] {
        vm.spec.power_off_mode = Some(mode.into());
        vsphere_vm.guest.tools = Some(if tools { ToolsState::Running } else { ToolsState::NotRunning });
        let off = Step::Power(PowerState::Off, PowerMode::of(Some(mode)));
        assert_eq!(steps(&vm, &vsphere_vm, &facts), [off], "{mode}");
        lines.push(conditions(&vm, &vsphere_vm, &facts, &["VirtualMachinePowerStateSynced"]));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn informational_conditions_leave_a_vm_ready() {
    let types = [
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
    let (vm, vsphere_vm, facts) = settled();
    let well = conditions(&vm, &vsphere_vm, &facts, &types);
    let (mut vm, mut vsphere_vm, mut facts) = settled();
    vm.spec.min_hardware_version = Some(21);
    vm.spec.next_restart_time = Some("2026-11-21T12:00:00Z".into());
    vm.spec.restart_mode = Some("soft".into());
    annotate(&mut vm, "condition.vmoperator.vmware.com.protected/Backup", "Backup;False;Late;It is late");
    annotate(&mut vm, "condition.vmoperator.vmware.com.protected/Ready", "Ready;False;No;never");
    vsphere_vm.guest.tools = Some(ToolsState::NotRunning);
    vsphere_vm.guest.customization =
        Some(Customized { status: "TOOLSDEPLOYPKG_FAILED".into(), error: Some("no network adapter".into()) });
    vsphere_vm
        .extra_config
        .insert("guestinfo.vmservice.bootstrap.condition".into(), "false,Disk,the disk is full".into());
    facts.runtime.size = facts.runtime.size.map(|size| Size { memory_mib: 8192, ..size });
    facts.runtime.placement =
        Some(Placement { pool: vsphere::MoRef::pool("resgroup-1"), ..fixtures::place() });
    let ill = conditions(&vm, &vsphere_vm, &facts, &types);
    insta::assert_snapshot!(format!("{well}\n\n{ill}"));
}

#[test]
fn linked_disks_are_promoted_in_the_power_state_that_was_asked_for() {
    use PowerState::{Off, On};
    let (mut vm, mut vsphere_vm, facts) = settled();
    vsphere_vm.extra_config.insert(mark::BASE.into(), "photon-x".into());
    let disks = vec![vsphere::VirtualDisk::default()];
    let promoting = |mode, state| Facts { promotion: Some(Promotion { mode, state }), ..facts.clone() };
    let due = |vm: &VirtualMachine, vsphere_vm: &Vm, mode| {
        let facts = promoting(mode, PromotionState::Due(disks.clone()));
        facts.promotion.is_some_and(|promotion| promotion.due(vm, vsphere_vm).is_some())
    };
    for (wanted, is, online, offline) in [
        ("poweredOn", On, true, false),
        ("poweredOn", Off, false, false),
        ("poweredOff", On, false, false),
        ("poweredOff", Off, false, true),
    ] {
        vm.spec.power_state = Some(wanted.into());
        vsphere_vm.power_state = Some(is);
        let promotes =
            (due(&vm, &vsphere_vm, PromoteDisks::Online), due(&vm, &vsphere_vm, PromoteDisks::Offline));
        assert_eq!(promotes, (online, offline), "{wanted} {is:?}");
    }
    (vm.spec.power_state, vsphere_vm.power_state) = (None, Some(On));
    let say = |state, mode| {
        conditions(&vm, &vsphere_vm, &promoting(mode, state), &["VirtualMachineDiskPromotionSynced"])
    };
    let lines = [
        say(PromotionState::Due(disks.clone()), PromoteDisks::Online),
        say(PromotionState::Due(disks.clone()), PromoteDisks::Offline),
        say(PromotionState::Running, PromoteDisks::Online),
        say(PromotionState::Snapshots, PromoteDisks::Online),
        say(PromotionState::Retrying("vCenter is away".into()), PromoteDisks::Online),
        say(PromotionState::Failed("No space is left".into()), PromoteDisks::Online),
        say(PromotionState::Done, PromoteDisks::Online),
    ];
    insta::assert_snapshot!(lines.join("\n"));

    // The only remaining step removes the note about the template.
    let finished = promoting(PromoteDisks::Online, PromotionState::Finished);
    let steps = steps(&vm, &vsphere_vm, &finished);
    assert_eq!(steps.iter().map(Step::word).collect::<Vec<_>>(), ["reconfigure"]);
    done(&mut vsphere_vm, &steps[0]);
    assert_eq!((mark::base(&vsphere_vm), words(&vm, &vsphere_vm, &finished)), (None, String::new()));
    vsphere_vm.extra_config.insert("vmservice.virtualmachine.pause".into(), "true".into());
    assert!(!due(&vm, &vsphere_vm, PromoteDisks::Online), "an admin has it paused");
}

/// Applies a completed step to the VM.
fn done(vsphere_vm: &mut Vm, step: &Step) {
    match step {
        Step::Reconfigure(spec) => {
            vsphere_vm.num_cpus = spec.num_cpus.unwrap_or(vsphere_vm.num_cpus);
            vsphere_vm.memory_mib =
                spec.memory_mib.map_or(vsphere_vm.memory_mib, |mib| mib.try_into().unwrap());
            vsphere_vm.cpu_allocation = spec.cpu_allocation.unwrap_or(vsphere_vm.cpu_allocation);
            vsphere_vm.memory_allocation = spec.memory_allocation.unwrap_or(vsphere_vm.memory_allocation);
            vsphere_vm.change_tracking = spec.change_tracking_enabled.or(vsphere_vm.change_tracking);
            vsphere_vm.extra_config.extend(spec.extra_config.iter().cloned());
        }
        Step::Upgrade(version) => vsphere_vm.hardware_version = format!("vmx-{version}"),
        Step::Power(state, _) => vsphere_vm.power_state = Some(*state),
        Step::Restart(_, at) => vsphere_vm.extra_config.extend([step::restart_note(*at)]),
        Step::Customize(_) | Step::Join(_) => {}
    }
}

proptest! {
    /// Wherever a reconcile is interrupted, the next ones complete the changes.
    #[test]
    fn a_plan_cut_short_is_taken_up_and_comes_to_an_end(
        wanted in prop::sample::select(vec!["poweredOn", "poweredOff", "suspended"]),
        is in prop::sample::select(vec![PowerState::On, PowerState::Off, PowerState::Suspended]),
        mode in prop::sample::select(vec!["hard", "soft", "trySoft"]),
        (cpus, version, tracked, restart, renamed) in
            (1u32..9, 13i32..22, any::<bool>(), any::<bool>(), any::<bool>()),
        cuts in prop::collection::vec(0usize..4, 4),
    ) {
        let (mut vm, mut vsphere_vm, mut facts) = settled();
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
        facts.runtime.size = facts.runtime.size.map(|size| Size { cpus, ..size });
        vsphere_vm.power_state = Some(is);
        for cut in cuts.into_iter().chain([usize::MAX, usize::MAX]) {
            let planned = steps(&vm, &vsphere_vm, &facts);
            planned.iter().take(cut).for_each(|step| done(&mut vsphere_vm, step));
        }
        prop_assert_eq!(steps(&vm, &vsphere_vm, &facts), Vec::<Step>::new());
    }
}
