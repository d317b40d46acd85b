//! One trial: a few dozen machines in a storm, and what is left when it is calm again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use site::door::PowerAction;
use tokio::time::Instant;

use super::arena::{Arena, Room, objects};
use super::report::{Failure, Report, kept};
use super::schedule::{Happening, STORM, schedule};
use super::state::State;
use super::workload::{Ask, ask, condition, machine};
use crate::proxy::chaos::Chaos;

/// Machines of a trial.
const MACHINES: usize = 24;
/// After the storm everything is to be as it should within this time.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
const VM: &str = "VirtualMachine";
const POLICY: &str = "VirtualMachineSetResourcePolicy";
const LOST: &str = "VirtualMachineLost";

/// Runs all trials, shared out among the arenas.
pub async fn seeded(arenas: &[Arena], first: u64, trials: u64, report: &RefCell<Report>) -> Result<()> {
    let seeds = RefCell::new(first..first + trials);
    let each = arenas.iter().map(|arena| async {
        loop {
            let Some(seed) = seeds.borrow_mut().next() else { return anyhow::Ok(()) };
            trial(arena, seed, report).await?;
        }
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// What the users want of a machine, and what was done to it.
#[derive(Clone, Debug, Default)]
struct Fate {
    on: bool,
    deleted: bool,
    destroyed: bool,
}

struct Trial<'a> {
    arena: &'a Arena,
    room: Room,
    fates: RefCell<Vec<Fate>>,
    pending: RefCell<Vec<Happening>>,
    report: &'a RefCell<Report>,
}

async fn trial(arena: &Arena, seed: u64, report: &RefCell<Report>) -> Result<()> {
    let from = std::fs::metadata(arena.vmop.log()).map_or(0, |found| found.len());
    let room = arena.room(&format!("trial-{seed}")).await?;
    let fates = (0..MACHINES).map(|number| Fate { on: number % 4 != 0, ..Fate::default() }).collect();
    let trial = Trial { arena, room, fates: RefCell::new(fates), pending: RefCell::default(), report };
    arena.proxy.forget();
    arena.proxy.order(|orders| orders.chaos = Some(Chaos::new(seed)));
    arena.vmop.revive().await;
    trial.asked().await?;
    trial.storm(seed).await?;
    let began = Instant::now();
    let (causes, state) = trial.calm().await?;
    tracing::info!(seed, calm = began.elapsed().as_secs_f32(), good = causes.is_empty(), "trial");
    arena.vmop.kill().await;
    trial.told(seed, from, causes, &state);
    arena.proxy.forget();
    arena.clear(&trial.room).await
}

fn name(number: usize) -> String {
    format!("m-{number:02}")
}

impl Trial<'_> {
    /// A policy and the machines, half of them in its folder and half with a guest's data.
    async fn asked(&self) -> Result<()> {
        let policy = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": POLICY, "metadata": {"name": "p"},
            "spec": {"folder": {"name": "p"}, "resourcepool": {"name": "p"}},
        });
        ask(self.arena, &self.room, &Ask::Create(POLICY, policy)).await?;
        for number in 0..MACHINES {
            let mut spec = json!({});
            if number % 2 == 0 {
                spec["resourcePolicyName"] = "p".into();
            }
            if number % 3 != 0 {
                spec["vmMetadata"] = json!({"secretName": "boot", "transport": "ExtraConfig"});
            }
            if !self.fates.borrow()[number].on {
                spec["powerState"] = "poweredOff".into();
            }
            ask(self.arena, &self.room, &Ask::Create(VM, machine(&name(number), &spec))).await?;
        }
        Ok(())
    }

    /// Counts what happened, and what is wrong.
    fn told(&self, seed: u64, from: u64, causes: Vec<String>, state: &State) {
        let mut report = self.report.borrow_mut();
        report.trials += 1;
        self.arena.proxy.order(|orders| {
            orders.faults.iter().for_each(|(kind, times)| report.struck(kind, *times));
        });
        if !causes.is_empty() {
            let failure = Failure {
                repeat: format!("--seed {seed} --trials 1"),
                fault: "storm".to_owned(),
                causes,
                log: kept(self.arena.vmop.log(), from, &format!("seed-{seed}")),
            };
            report.failed(&state.findings, failure);
        }
    }

    async fn storm(&self, seed: u64) -> Result<()> {
        let began = Instant::now();
        for (at, happening) in schedule(seed, MACHINES) {
            tokio::time::sleep_until(began + at).await;
            self.met(happening).await?;
        }
        tokio::time::sleep_until(began + STORM).await;
        self.arena.proxy.order(|orders| orders.chaos = None);
        self.arena.world.door().remove_faults(None).await?;
        Ok(())
    }

    /// Lets it happen, now or as soon as there is a machine that it can happen to.
    async fn met(&self, happening: Happening) -> Result<()> {
        let came = self.happens(&happening).await?;
        tracing::debug!(room = self.room.namespace, ?happening, ?came, "happens");
        match came {
            Some(true) => self.report.borrow_mut().struck(happening.name(), 1),
            Some(false) => {}
            None => self.pending.borrow_mut().push(happening),
        }
        Ok(())
    }

    /// Lets it happen; false if it can't, and nothing if there is no machine yet.
    async fn happens(&self, happening: &Happening) -> Result<Option<bool>> {
        let door = self.arena.world.door();
        match happening {
            Happening::Kill => {
                self.arena.vmop.kill().await;
                self.arena.vmop.revive().await;
            }
            Happening::Rival(time) => {
                self.arena.rival.revive().await;
                tokio::time::sleep(*time).await;
                self.arena.rival.kill().await;
            }
            Happening::Expire => door.expire_sessions().await?,
            Happening::Cut { down, restart } => door.cut(*down, *restart).await?,
            Happening::Plant(fault) => drop(door.plant(fault).await?),
            Happening::Power(number, on) => {
                if self.fates.borrow()[*number].deleted {
                    return Ok(Some(false));
                }
                self.fates.borrow_mut()[*number].on = *on;
                let state = if *on { "poweredOn" } else { "poweredOff" };
                let patch = json!({"spec": {"powerState": state}});
                self.change(*number, &patch).await?;
            }
            Happening::Delete(number) => {
                self.fates.borrow_mut()[*number].deleted = true;
                let api = self.arena.api(VM, &self.room.namespace);
                api.delete(&name(*number), &kube::api::DeleteParams::default()).await?;
            }
            Happening::Destroyed(number) => return self.behind(*number, PowerAction::Destroy).await,
            Happening::PoweredOff(number) => return self.behind(*number, PowerAction::Off).await,
            Happening::Renamed(number) => {
                let Some(id) = self.known(*number).await? else { return Ok(self.later(*number)) };
                return Ok(Some(door.rename(&id, &format!("renamed-{number}")).await.is_ok()));
            }
        }
        Ok(Some(true))
    }

    /// A machine that is not there may come, unless nobody wants it any more.
    fn later(&self, number: usize) -> Option<bool> {
        self.fates.borrow()[number].deleted.then_some(false)
    }

    async fn change(&self, number: usize, patch: &Value) -> Result<()> {
        let api = self.arena.api(VM, &self.room.namespace);
        let patch = kube::api::Patch::Merge(patch);
        api.patch(&name(number), &kube::api::PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The machine that the object knows of.
    async fn known(&self, number: usize) -> Result<Option<String>> {
        let api = self.arena.api(VM, &self.room.namespace);
        let object = api.get_opt(&name(number)).await?;
        Ok(object.and_then(|object| object.data["status"]["uniqueID"].as_str().map(str::to_owned)))
    }

    async fn behind(&self, number: usize, action: PowerAction) -> Result<Option<bool>> {
        let Some(id) = self.known(number).await? else { return Ok(self.later(number)) };
        let done = self.arena.world.door().power(&id, action).await.is_ok();
        if done && action == PowerAction::Destroy {
            self.fates.borrow_mut()[number].destroyed = true;
        }
        Ok(Some(done))
    }

    /// Waits until everything is as it should be; else says what is not.
    async fn calm(&self) -> Result<(Vec<String>, State)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for happening in self.pending.take() {
                self.met(happening).await?;
            }
            let mut state = State::read(self.arena, &self.room).await?;
            let wrong = self.wrong(&mut state).await?;
            let over = wrong.is_empty() && self.pending.borrow().is_empty();
            if over || Instant::now() >= deadline {
                return Ok((wrong, state));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn wrong(&self, state: &mut State) -> Result<Vec<String>> {
        let live = objects(&self.arena.world.client(), VM, &self.room.namespace).await?;
        let fates = self.fates.borrow().clone();
        // What was destroyed behind everybody's back is lost, and says so.
        let destroyed: BTreeSet<_> =
            (0..MACHINES).filter(|number| fates[*number].destroyed).map(name).collect();
        state.findings.lost.retain(|lost| !destroyed.iter().any(|name| lost.contains(&format!(" {name} "))));
        let mut wrong: Vec<_> = state.findings.all().cloned().collect();
        for (number, fate) in fates.iter().enumerate() {
            let name = name(number);
            let object = live.get(&name).unwrap_or(&Value::Null);
            wrong.extend(amiss(&name, fate, object));
        }
        let templates = state.vms.values().filter(|vm| vm["template"] == true).count();
        if templates != 1 {
            wrong.push(format!("{templates} templates instead of one"));
        }
        let places: Vec<_> = state.places.iter().map(String::as_str).collect();
        if places != ["pool", "pool/p", "~", "~/p"] {
            wrong.push(format!("places are {places:?}"));
        }
        Ok(wrong)
    }
}

/// What is wrong with a machine's object, given what was wanted and done.
fn amiss(name: &str, fate: &Fate, object: &Value) -> Option<String> {
    let ready = condition(object, "Ready");
    if fate.deleted {
        return (!object.is_null()).then(|| format!("{VM} {name} is still there: {ready}"));
    }
    if fate.destroyed {
        return (ready["reason"] != LOST)
            .then(|| format!("{VM} {name} does not say that it is lost: {ready}"));
    }
    let wanted = if fate.on { "poweredOn" } else { "poweredOff" };
    if object["status"]["powerState"] != wanted {
        return Some(format!("{VM} {name} is not {wanted}: {ready}"));
    }
    (fate.on && ready["status"] != "True").then(|| format!("{VM} {name} is not Ready: {ready}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_has_its_end() {
        let ready = |status: &str, reason: &str| json!({"status": {"powerState": "poweredOn", "conditions": [{"type": "Ready", "status": status, "reason": reason}]}});
        let on = Fate { on: true, ..Fate::default() };
        assert_eq!(amiss("a", &on, &ready("True", "")), None);
        assert!(amiss("a", &on, &ready("False", "x")).is_some());
        assert!(amiss("a", &Fate::default(), &ready("True", "")).is_some());
        let deleted = Fate { deleted: true, destroyed: true, ..Fate::default() };
        assert_eq!(amiss("a", &deleted, &Value::Null), None);
        let destroyed = Fate { destroyed: true, ..on };
        assert!(amiss("a", &destroyed, &ready("True", "")).is_some());
        assert_eq!(amiss("a", &destroyed, &ready("False", LOST)), None);
    }
}
