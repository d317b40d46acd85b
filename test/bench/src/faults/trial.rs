//! One trial: a few dozen machines in a storm, and what is left when it is calm again.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sim::control::PowerAction;
use tokio::time::Instant;

use super::arena::{Arena, Room, objects};
use super::disks::theirs;
use super::fate::{Fate, OFF, ON, SUSPENDED, VM, amiss, apart, claims, in_module, name, renamed, wanted};
use super::report::{Failure, Report, kept};
use super::schedule::{Happening, STORM, schedule};
use super::state::State;
use super::workload::{Ask, ask, policy};
use crate::proxy::chaos::Chaos;

/// Machines of a trial.
const MACHINES: usize = 24;
/// After the storm everything is to be as it should within this time.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(50);
const POLICY: &str = "VirtualMachineSetResourcePolicy";
/// A disk that somebody has hung on a machine is known of in this time.
const TOLD: Duration = Duration::from_secs(2);

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
    let fates = (0..MACHINES).map(|number| Fate::new(if number % 4 == 0 { OFF } else { ON })).collect();
    let trial = Trial { arena, room, fates: RefCell::new(fates), pending: RefCell::default(), report };
    arena.proxy.forget();
    arena.proxy.order(|orders| orders.chaos = Some(Chaos::new(seed)));
    arena.vmop.revive().await;
    trial.asked().await?;
    trial.storm(seed).await?;
    let began = Instant::now();
    let (mut causes, mut state) = trial.calm().await?;
    arena.searched(&trial.room).await?;
    if causes.is_empty() {
        (causes, state) = trial.ended().await?;
    }
    tracing::info!(seed, calm = began.elapsed().as_secs_f32(), good = causes.is_empty(), "trial");
    arena.vmop.kill().await;
    trial.told(seed, from, causes, &state);
    arena.proxy.forget();
    arena.clear(&trial.room).await
}

impl Trial<'_> {
    /// A policy and the machines.
    async fn asked(&self) -> Result<()> {
        ask(self.arena, &self.room, &Ask::Create(POLICY, policy())).await?;
        for number in 0..MACHINES {
            if claims(number) {
                let client = self.arena.world.client();
                self.arena.disks.claimed(&client, &self.room.namespace, &name(number)).await?;
            }
            let object = wanted(number, self.fates.borrow()[number].power);
            ask(self.arena, &self.room, &Ask::Create(VM, object)).await?;
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
        self.arena.world.control().remove_faults(None).await?;
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
        let control = self.arena.world.control();
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
            Happening::Expire => control.expire_sessions().await?,
            Happening::Cut { down, restart } => control.cut(*down, *restart).await?,
            Happening::Plant(fault) => drop(control.plant(fault).await?),
            Happening::Power(number, on) => {
                return self.powered(*number, if *on { ON } else { OFF }).await;
            }
            Happening::Suspend(number) => return self.powered(*number, SUSPENDED).await,
            Happening::Restart(number) => {
                if self.fates.borrow()[*number].deleted {
                    return Ok(Some(false));
                }
                self.fates.borrow_mut()[*number].restarted = true;
                self.change(*number, &json!({"spec": {"nextRestartTime": "now"}})).await?;
            }
            Happening::Hung(number) => return self.hung(*number).await,
            Happening::Delete(number) => {
                let hung = self.fates.borrow()[*number].hung;
                if hung.is_some_and(|since| since.elapsed() < TOLD) {
                    return Ok(None);
                }
                self.fates.borrow_mut()[*number].deleted = true;
                let api = self.arena.api(VM, &self.room.namespace);
                api.delete(&name(*number), &kube::api::DeleteParams::default()).await?;
            }
            Happening::Destroyed(number) => return self.behind(*number, PowerAction::Destroy).await,
            Happening::PoweredOff(number) => return self.behind(*number, PowerAction::Off).await,
            Happening::Renamed(number) => {
                let Some(id) = self.known(*number).await? else { return Ok(self.later(*number)) };
                return Ok(Some(control.rename(&id, &renamed(*number)).await.is_ok()));
            }
        }
        Ok(Some(true))
    }

    /// A machine that is not there may come, unless nobody wants it any more.
    fn later(&self, number: usize) -> Option<bool> {
        self.fates.borrow()[number].deleted.then_some(false)
    }

    /// A user wants the machine in that power state.
    async fn powered(&self, number: usize, state: &'static str) -> Result<Option<bool>> {
        if self.fates.borrow()[number].deleted {
            return Ok(Some(false));
        }
        let before = self.fates.borrow()[number].power;
        if state == SUSPENDED && before == OFF {
            return Ok(Some(false));
        }
        self.fates.borrow_mut()[number].power = state;
        self.change(number, &json!({"spec": {"powerState": state}})).await?;
        Ok(Some(true))
    }

    /// Somebody hangs a disk on the machine; one that is about to go is left alone.
    async fn hung(&self, number: usize) -> Result<Option<bool>> {
        if self.fates.borrow()[number].deleted {
            return Ok(Some(false));
        }
        let Some(id) = self.known(number).await? else { return Ok(self.later(number)) };
        let folder = theirs(&self.room.namespace, &name(number));
        let done = self.arena.disks.hung(&id, &folder).await.is_ok();
        if done {
            self.fates.borrow_mut()[number].hung = Some(Instant::now());
        }
        Ok(Some(done))
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
        let done = self.arena.world.control().power(&id, action).await.is_ok();
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
        self.pardoned(state);
        let mut wrong: Vec<_> = state.findings.all().cloned().collect();
        for (number, fate) in fates.iter().enumerate() {
            let name = name(number);
            let object = live.get(&name).unwrap_or(&Value::Null);
            wrong.extend(amiss(&name, fate, object));
        }
        let modules = state.modules();
        let lacks = |number: &usize| {
            let fate = &fates[*number];
            let there = fate.power == ON && !fate.deleted && !fate.destroyed;
            apart(*number) && there && !modules.iter().any(|module| in_module(module, *number))
        };
        wrong.extend(
            (0..MACHINES).filter(lacks).map(|number| format!("{VM} {} is in no module", name(number))),
        );
        if modules.len() != 1 {
            wrong.push(format!("modules are {modules:?}"));
        }
        wrong.extend(misplaced(state, &["pool", "pool/p", "~", "~/p"]));
        Ok(wrong)
    }

    /// What was destroyed behind everybody's back is lost, and says so; disks that hung on it went with it.
    fn pardoned(&self, state: &mut State) {
        let fates = self.fates.borrow();
        let destroyed: Vec<_> = (0..MACHINES).filter(|number| fates[*number].destroyed).map(name).collect();
        let of = |lost: &str, name: &str| {
            [' ', '-'].iter().any(|before| lost.contains(&format!("{before}{name} ")))
        };
        state.findings.lost.retain(|lost| !destroyed.iter().any(|name| of(lost, name)));
    }

    /// Everything is deleted, and nothing stays behind; else says what does.
    async fn ended(&self) -> Result<(Vec<String>, State)> {
        let all = kube::api::ListParams::default();
        for kind in [VM, POLICY] {
            let api = self.arena.api(kind, &self.room.namespace);
            api.delete_collection(&kube::api::DeleteParams::default(), &all).await?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut state = State::read(self.arena, &self.room).await?;
            self.pardoned(&mut state);
            let mut wrong: Vec<_> = state.findings.all().cloned().collect();
            wrong.extend(state.objects.keys().map(|name| format!("{name} is still there")));
            wrong.extend(state.modules().iter().map(|module| format!("{module} is still there")));
            wrong.extend(misplaced(&state, &["pool", "~"]));
            if wrong.is_empty() || Instant::now() >= deadline {
                return Ok((wrong, state));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What is wrong with templates, folders and pools.
fn misplaced(state: &State, wanted: &[&str]) -> Vec<String> {
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
