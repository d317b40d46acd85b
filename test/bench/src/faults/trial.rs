//! One trial: a few dozen VMs in a storm, and the checks after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sim::control::PowerAction;
use tokio::time::Instant;

use super::environment::{FaultTestbed, Namespace, list_objects};
use super::expected::{
    Expected, OFF, ON, SUSPENDED, VM, find_violation, has_claim, is_in_module, is_module_member, numbered_vm,
    renamed_vm, vm_name,
};
use super::foreign_disks::foreign_folder;
use super::report::{FailedRun, FaultReport, keep_log};
use super::schedule::{FaultEvent, SITE_STORM, STORM, Schedule, draw_schedule, draw_site_schedule};
use super::state::CanonicalState;
use super::workload::{UserRequest, policy_object, send_request};
use crate::proxy::chaos::Chaos;

const VMS: usize = 24;
/// The time after the storm within which all VMs must reach their expected state.
const TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const POLICY: &str = "VirtualMachineSetResourcePolicy";
/// The time within which the VM operator notices a disk that was attached in vCenter.
const DISK_NOTICED: Duration = Duration::from_secs(2);

/// Runs all trials, distributed over the environments.
pub async fn run_seeded(
    environments: &[FaultTestbed],
    first: u64,
    trials: u64,
    report: &RefCell<FaultReport>,
) -> Result<()> {
    let seeds = RefCell::new(first..first + trials);
    let each = environments.iter().map(|environment| async {
        loop {
            let Some(seed) = seeds.borrow_mut().next() else { return anyhow::Ok(()) };
            run_trial(environment, seed, report).await?;
        }
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// The site events that must be reverted after the storm.
#[derive(Debug, Default)]
pub(super) struct Undone {
    /// The VMs that were moved, with their original folders.
    pub(super) vms: Vec<(String, String)>,
    /// The folders that were moved or renamed, with their original parents and names.
    pub(super) folders: Vec<(String, String, String)>,
    pub(super) backup: bool,
    /// The VMs' folder IDs by instance UUID, just before vCenter was restored.
    pub(super) lay: Option<BTreeMap<String, String>>,
    /// The instance UUIDs of VMs that vCenter discovered when its hosts reconnected after a restore.
    pub(super) discovered: BTreeSet<String>,
}

pub(super) struct Trial<'a> {
    pub(super) environment: &'a FaultTestbed,
    pub(super) namespace: Namespace,
    pub(super) expected: RefCell<Vec<Expected>>,
    pending: RefCell<Vec<FaultEvent>>,
    pub(super) undone: RefCell<Undone>,
    report: &'a RefCell<FaultReport>,
}

async fn run_trial(environment: &FaultTestbed, seed: u64, report: &RefCell<FaultReport>) -> Result<()> {
    let from = std::fs::metadata(environment.vmop.log()).map_or(0, |found| found.len());
    let namespace = environment.create_namespace(&format!("trial-{seed}")).await?;
    let expected = (0..VMS).map(|number| Expected::new(if number % 4 == 0 { OFF } else { ON })).collect();
    let trial = Trial {
        environment,
        namespace,
        expected: RefCell::new(expected),
        pending: RefCell::default(),
        undone: RefCell::default(),
        report,
    };
    environment.proxy.reset();
    environment.proxy.with_injections(|injections| injections.chaos = Some(Chaos::new(seed)));
    environment.vmop.revive().await;
    trial.create_objects().await?;
    trial.run_storm(seed).await?;
    let began = Instant::now();
    let (mut causes, mut state) = trial.wait_until_correct().await?;
    environment.search_for_secrets(&trial.namespace).await?;
    if causes.is_empty() {
        (causes, state) = trial.delete_everything().await?;
    }
    tracing::info!(seed, calm = began.elapsed().as_secs_f32(), good = causes.is_empty(), "trial");
    environment.vmop.kill().await;
    trial.record(seed, from, causes, &state);
    environment.proxy.reset();
    environment.clear_namespace(&trial.namespace).await
}

impl Trial<'_> {
    /// Creates the policy and the VMs.
    async fn create_objects(&self) -> Result<()> {
        send_request(self.environment, &self.namespace, &UserRequest::Create(POLICY, policy_object()))
            .await?;
        for number in 0..VMS {
            if has_claim(number) {
                let client = self.environment.testbed.client();
                self.environment.disks.create_claim(&client, &self.namespace.name, &vm_name(number)).await?;
            }
            let object = numbered_vm(number, self.expected.borrow()[number].power);
            send_request(self.environment, &self.namespace, &UserRequest::Create(VM, object)).await?;
        }
        Ok(())
    }

    /// Adds the injected faults and the violations to the report.
    fn record(&self, seed: u64, from: u64, causes: Vec<String>, state: &CanonicalState) {
        let mut report = self.report.borrow_mut();
        report.trials += 1;
        self.environment.proxy.with_injections(|injections| {
            injections.injected.iter().for_each(|(kind, times)| report.count_injected(kind, *times));
        });
        if !causes.is_empty() {
            let failure = FailedRun {
                repeat: format!("--seed {seed} --trials 1"),
                fault: "storm".to_owned(),
                causes,
                log: keep_log(self.environment.vmop.log(), from, &format!("seed-{seed}")),
            };
            report.count_failure(&state.findings, failure);
        }
    }

    /// Runs the first storm while VMs are created, then site events when most VMs exist.
    async fn run_storm(&self, seed: u64) -> Result<()> {
        self.run_schedule(draw_schedule(seed, VMS), STORM).await?;
        self.wait_for_vms().await?;
        self.run_schedule(draw_site_schedule(seed, VMS), SITE_STORM).await?;
        self.environment.proxy.with_injections(|injections| injections.chaos = None);
        self.environment.testbed.control().remove_faults(None).await?;
        self.undo_site_events().await
    }

    async fn run_schedule(&self, schedule: Schedule, lasts: Duration) -> Result<()> {
        let began = Instant::now();
        for (at, event) in schedule {
            tokio::time::sleep_until(began + at).await;
            self.apply(event).await?;
        }
        tokio::time::sleep_until(began + lasts).await;
        Ok(())
    }

    /// Waits until 75 % of the VMs exist, or until a timeout.
    async fn wait_for_vms(&self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT / 2;
        let wanted = self.expected.borrow().iter().filter(|expected| !expected.deleted).count();
        loop {
            let objects = list_objects(&self.environment.testbed.client(), VM, &self.namespace.name).await?;
            let made = objects.values().filter(|object| object["status"]["uniqueID"].is_string()).count();
            if made * 4 >= wanted * 3 || Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Applies the event now, or later if its VM doesn't exist yet.
    async fn apply(&self, event: FaultEvent) -> Result<()> {
        let came = self.try_apply(&event).await?;
        tracing::debug!(namespace = self.namespace.name, ?event, ?came, "happens");
        match came {
            Some(true) => self.report.borrow_mut().count_injected(event.name(), 1),
            Some(false) => {}
            None => self.pending.borrow_mut().push(event),
        }
        Ok(())
    }

    /// Applies the event. Returns `Some(false)` if it isn't possible, and `None` if it must be tried again later.
    async fn try_apply(&self, event: &FaultEvent) -> Result<Option<bool>> {
        let control = self.environment.testbed.control();
        match event {
            FaultEvent::Kill => {
                self.environment.vmop.kill().await;
                self.environment.vmop.revive().await;
            }
            FaultEvent::TwoLeaders(time) => {
                self.environment.second_vmop.revive().await;
                tokio::time::sleep(*time).await;
                self.environment.second_vmop.kill().await;
            }
            FaultEvent::Expire => control.expire_sessions().await?,
            FaultEvent::Cut { down, restart } => control.cut(*down, *restart).await?,
            FaultEvent::InjectFault(fault) => drop(control.plant(fault).await?),
            FaultEvent::Power(number, on) => {
                return self.set_power(*number, if *on { ON } else { OFF }).await;
            }
            FaultEvent::Suspend(number) => return self.set_power(*number, SUSPENDED).await,
            FaultEvent::Restart(number) => {
                if self.expected.borrow()[*number].deleted {
                    return Ok(Some(false));
                }
                self.expected.borrow_mut()[*number].restarted = true;
                self.patch_vm(*number, &json!({"spec": {"nextRestartTime": "now"}})).await?;
            }
            FaultEvent::AttachDisk(number) => return self.attach_disk(*number).await,
            FaultEvent::Delete(number) => {
                if self.expected.borrow()[*number].deleted {
                    return Ok(Some(false));
                }
                let attached = self.expected.borrow()[*number].disk_attached;
                if attached.is_some_and(|since| since.elapsed() < DISK_NOTICED) {
                    return Ok(None);
                }
                self.expected.borrow_mut()[*number].deleted = true;
                let api = self.environment.api(VM, &self.namespace.name);
                api.delete(&vm_name(*number), &kube::api::DeleteParams::default()).await?;
            }
            FaultEvent::Destroyed(number) => return self.act_in_vcenter(*number, PowerAction::Destroy).await,
            FaultEvent::PoweredOff(number) => return self.act_in_vcenter(*number, PowerAction::Off).await,
            FaultEvent::Renamed(number) => {
                let Some(id) = self.vm_id(*number).await? else { return Ok(self.postpone(*number)) };
                return Ok(Some(control.rename(&id, &renamed_vm(*number)).await.is_ok()));
            }
            _ => return Box::pin(self.apply_to_site(event)).await,
        }
        Ok(Some(true))
    }

    /// Returns `None` to postpone an event until its VM exists, or `Some(false)` if the object is deleted.
    pub(super) fn postpone(&self, number: usize) -> Option<bool> {
        self.expected.borrow()[number].deleted.then_some(false)
    }

    /// Sets the VM's desired power state, unless its object is deleted.
    async fn set_power(&self, number: usize, state: &'static str) -> Result<Option<bool>> {
        if self.expected.borrow()[number].deleted {
            return Ok(Some(false));
        }
        let before = self.expected.borrow()[number].power;
        if state == SUSPENDED && before == OFF {
            return Ok(Some(false));
        }
        self.expected.borrow_mut()[number].power = state;
        self.patch_vm(number, &json!({"spec": {"powerState": state}})).await?;
        Ok(Some(true))
    }

    /// Attaches a foreign disk to the VM in vCenter. Skips VMs whose object is deleted or whose disk was swapped.
    async fn attach_disk(&self, number: usize) -> Result<Option<bool>> {
        let expected = self.expected.borrow()[number].clone();
        if expected.deleted || expected.disk_swapped {
            return Ok(Some(false));
        }
        let Some(id) = self.vm_id(number).await? else { return Ok(self.postpone(number)) };
        let folder = foreign_folder(&self.namespace.name, &vm_name(number));
        let done = self.environment.disks.attach_disk(&id, &folder).await.is_ok();
        if done {
            self.expected.borrow_mut()[number].disk_attached = Some(Instant::now());
        }
        Ok(Some(done))
    }

    async fn patch_vm(&self, number: usize, patch: &Value) -> Result<()> {
        let api = self.environment.api(VM, &self.namespace.name);
        let patch = kube::api::Patch::Merge(patch);
        api.patch(&vm_name(number), &kube::api::PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Returns the current vCenter ID for the VM that the object knows.
    pub(super) async fn vm_id(&self, number: usize) -> Result<Option<String>> {
        let api = self.environment.api(VM, &self.namespace.name);
        let object = api.get_opt(&vm_name(number)).await?;
        let known = object.filter(|object| object.data["status"]["uniqueID"].is_string());
        let Some(uuid) =
            known.and_then(|object| object.data["spec"]["instanceUUID"].as_str().map(str::to_owned))
        else {
            return Ok(None);
        };
        // A restored vCenter reuses IDs, so look up the instance UUID.
        let inventory = self.environment.testbed.control().inventory().await?;
        let vm = inventory.vms.into_iter().find(|vm| vm.instance_uuid.eq_ignore_ascii_case(&uuid));
        Ok(vm.map(|vm| vm.moid))
    }

    async fn act_in_vcenter(&self, number: usize, action: PowerAction) -> Result<Option<bool>> {
        let Some(id) = self.vm_id(number).await? else { return Ok(self.postpone(number)) };
        let done = self.environment.testbed.control().power(&id, action).await.is_ok();
        if done && action == PowerAction::Destroy {
            self.expected.borrow_mut()[number].destroyed = true;
        }
        Ok(Some(done))
    }

    /// Waits until there are no violations. After a timeout, returns the remaining ones.
    async fn wait_until_correct(&self) -> Result<(Vec<String>, CanonicalState)> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            for event in self.pending.take() {
                self.apply(event).await?;
            }
            let mut state = CanonicalState::read(self.environment, &self.namespace).await?;
            let wrong = self.find_violations(&mut state).await?;
            let over = wrong.is_empty() && self.pending.borrow().is_empty();
            if over || Instant::now() >= deadline {
                return Ok((wrong, state));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn find_violations(&self, state: &mut CanonicalState) -> Result<Vec<String>> {
        let live = list_objects(&self.environment.testbed.client(), VM, &self.namespace.name).await?;
        let expected = self.expected.borrow().clone();
        self.forgive_destroyed(state);
        self.forgive_discovered(state, &self.environment.testbed.control().inventory().await?);
        let mut wrong: Vec<_> = state.findings.all().cloned().collect();
        for (number, expected) in expected.iter().enumerate() {
            let name = vm_name(number);
            let object = live.get(&name).unwrap_or(&Value::Null);
            wrong.extend(find_violation(&name, expected, object));
        }
        let modules = state.modules();
        let lacks = |number: &usize| {
            let expected = &expected[*number];
            // The VM operator leaves a VM that lacks a volume alone until its user decides.
            let there =
                expected.power == ON && !expected.deleted && !expected.destroyed && !expected.disk_swapped;
            is_module_member(*number) && there && !modules.iter().any(|module| is_in_module(module, *number))
        };
        wrong
            .extend((0..VMS).filter(lacks).map(|number| format!("{VM} {} is in no module", vm_name(number))));
        if modules.len() != 1 {
            wrong.push(format!("modules are {modules:?}"));
        }
        wrong.extend(misplaced(state, &["pool", "pool/p", "~", "~/p"]));
        Ok(wrong)
    }

    /// Removes from the findings VMs that were destroyed in vCenter, and the disks that were attached to them.
    fn forgive_destroyed(&self, state: &mut CanonicalState) {
        let expected = self.expected.borrow();
        let destroyed: Vec<_> = (0..VMS).filter(|number| expected[*number].destroyed).map(vm_name).collect();
        let of = |lost: &str, name: &str| {
            [' ', '-'].iter().any(|before| lost.contains(&format!("{before}{name} ")))
        };
        state.findings.lost.retain(|lost| !destroyed.iter().any(|name| of(lost, name)));
    }

    /// Deletes all objects and waits until nothing is left behind. After a timeout, returns what is left.
    async fn delete_everything(&self) -> Result<(Vec<String>, CanonicalState)> {
        let all = kube::api::ListParams::default();
        for kind in [VM, POLICY] {
            let api = self.environment.api(kind, &self.namespace.name);
            api.delete_collection(&kube::api::DeleteParams::default(), &all).await?;
        }
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.remove_ownerless().await?;
            let mut state = CanonicalState::read(self.environment, &self.namespace).await?;
            self.forgive_destroyed(&mut state);
            self.forgive_discovered(&mut state, &self.environment.testbed.control().inventory().await?);
            let mut wrong: Vec<_> = state.findings.all().cloned().collect();
            wrong.extend(state.objects.keys().map(|name| format!("{name} is still there")));
            wrong.extend(state.modules().iter().map(|module| format!("{module} is still there")));
            wrong.extend(misplaced(&state, &["pool", "~"]));
            if wrong.is_empty() || Instant::now() >= deadline {
                return Ok((wrong, state));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns violations in templates, folders and pools.
fn misplaced(state: &CanonicalState, wanted: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let templates = state.vms.values().filter(|vm| vm["template"] == true).count();
    if templates != 1 {
        wrong.push(format!("{templates} templates instead of one"));
    }
    let places: Vec<_> = state.places().collect();
    if places != wanted {
        wrong.push(format!("places are {places:?}"));
    }
    wrong
}
