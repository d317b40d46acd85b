//! One run of the workload in a room of its own, with at most one misfortune, and what became of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use sim::control::{Fault, FaultKind};
use tokio::time::Instant;

use super::arena::{Arena, Room};
use super::state::State;
use super::workload::{Stage, View, ask, stages};
use crate::proxy::orders::{Counted, Key, Moment, Side};

/// A step that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(40);
/// Nothing more happens after this long a silence.
const SILENCE: Duration = Duration::from_millis(900);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);
/// How long an event is held back, and a view stays old.
const HELD: Duration = Duration::from_millis(500);

/// What goes wrong in a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Where.
    pub key: Key,
    /// What.
    pub kind: Kind,
}

/// The kinds of misfortune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The VM operator is killed just before the write, or when it is done and nobody knows.
    Kill(Moment),
    /// The event is held back for a while.
    Hold,
    /// The VM operator is killed, and sees the API server as it was so many steps before when it comes back.
    Travel(usize),
}

impl Kind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill(Moment::Before) => "killBefore",
            Self::Kill(Moment::After) => "killAfter",
            Self::Hold => "watchHeld",
            Self::Travel(_) => "timeTravel",
        }
    }
}

/// What became of a run.
#[derive(Debug, Default)]
pub struct Ran {
    /// What was there where it was to be compared.
    pub states: Vec<State>,
    /// Every write.
    pub writes: Vec<Key>,
    /// Every event.
    pub events: Vec<Key>,
    /// Whether the misfortune came to pass.
    pub met: bool,
    /// What is wrong in the end, and in which state.
    pub wrong: Option<(Vec<String>, Option<State>)>,
}

struct Run<'a> {
    arena: &'a Arena,
    room: Room,
    versions: RefCell<Vec<String>>,
    met: Cell<bool>,
}

/// Runs the workload in a new room and clears it. `wanted` is what a clean run came to.
pub async fn run(arena: &Arena, name: &str, case: Option<&Case>, wanted: Option<&[State]>) -> Result<Ran> {
    let room = arena.room(name).await?;
    arena.proxy.forget();
    arena.world.control().take_journal().await?;
    let run = Run { arena, room, versions: RefCell::default(), met: Cell::new(false) };
    let failures = arena.vmop.state().failures;
    let misfortune = async {
        if let Some(case) = case {
            run.strike(case).await?;
        }
        std::future::pending::<Result<()>>().await
    };
    let mut ran = Ran::default();
    let outcome = tokio::select! {
        outcome = run.staged(wanted, &mut ran) => outcome,
        failed = misfortune => failed,
    };
    arena.vmop.kill().await;
    ran.met = run.met.get() || arena.proxy.order(|orders| orders.faults.contains_key("watchHeld"));
    (ran.writes, ran.events) = run.counted().await?;
    if arena.vmop.state().failures > failures {
        ran.wrong = Some((vec!["the VM operator ended by itself".to_owned()], None));
    }
    arena.proxy.forget();
    arena.clear(&run.room).await?;
    outcome.map(|()| ran)
}

impl Run<'_> {
    async fn staged(&self, wanted: Option<&[State]>, ran: &mut Ran) -> Result<()> {
        let began = Instant::now();
        self.arena.vmop.revive().await;
        self.watched().await;
        tracing::debug!(after = ?began.elapsed(), "watched");
        for stage in stages() {
            let version = self.arena.version().await?;
            self.versions.borrow_mut().push(version);
            for asked in &stage.asks {
                ask(self.arena, &self.room, asked).await?;
            }
            if let Some(open) = self.reached(&stage).await? {
                let state = State::read(self.arena, &self.room).await?;
                ran.wrong = Some((vec![format!("step {}: {open}", stage.name)], Some(state)));
                return Ok(());
            }
            tracing::debug!(stage = stage.name, after = ?began.elapsed(), "reached");
            self.arena.searched(&self.room).await?;
            if !stage.compared {
                continue;
            }
            let (state, differences) = match wanted.and_then(|wanted| wanted.get(ran.states.len())) {
                Some(wanted) => self.like(wanted).await?,
                None => (self.settled().await?, Vec::new()),
            };
            let findings = state.findings.all().cloned();
            let wrong: Vec<_> =
                findings.chain(differences).map(|one| format!("after {}: {one}", stage.name)).collect();
            ran.states.push(state.clone());
            if !wrong.is_empty() {
                ran.wrong = Some((wrong, Some(state)));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until the VM operator watches, so that it learns of everything in the same way each time.
    async fn watched(&self) {
        let resources = ["virtualmachines", "virtualmachinesetresourcepolicies", "virtualmachineimages"];
        let all = |watched: &BTreeSet<String>| resources.iter().all(|resource| watched.contains(*resource));
        let deadline = Instant::now() + PATIENCE;
        while !self.arena.proxy.order(|orders| all(&orders.watched))
            && Instant::now() < deadline
            && !self.met.get()
        {
            tokio::time::sleep(LOOK / 4).await;
        }
    }

    /// Waits until the step has come as far as it is to; else says what is in its way.
    async fn reached(&self, stage: &Stage) -> Result<Option<String>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let open = (stage.open)(&View::read(self.arena, &self.room).await?);
            if open.is_none() || Instant::now() >= deadline {
                return Ok(open);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The state once nothing happens any more.
    async fn settled(&self) -> Result<State> {
        let deadline = Instant::now() + PATIENCE;
        while self.arena.proxy.quiet() < SILENCE && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        State::read(self.arena, &self.room).await
    }

    /// The state once it is as wanted, else as it is in the end with what differs.
    async fn like(&self, wanted: &State) -> Result<(State, Vec<String>)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = State::read(self.arena, &self.room).await?;
            let differences = wanted.differences(&state);
            if differences.is_empty() && state.findings.none() || Instant::now() >= deadline {
                return Ok((state, differences));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn counted(&self) -> Result<(Vec<Key>, Vec<Key>)> {
        let (mut writes, events) =
            self.arena.proxy.order(|orders| (orders.writes.all(), orders.events.all()));
        let mut counted = Counted::default();
        for call in self.arena.world.control().take_journal().await? {
            let object = self.arena.everywhere(&call.object);
            counted.note(Side::Vcenter, call.method, object);
        }
        writes.extend(counted.all());
        Ok((writes, events))
    }

    /// Lets the misfortune come to pass.
    async fn strike(&self, case: &Case) -> Result<()> {
        let moment = match case.kind {
            Kind::Hold => {
                self.arena.proxy.order(|orders| orders.hold = Some((case.key.clone(), HELD)));
                return Ok(());
            }
            Kind::Kill(moment) => moment,
            Kind::Travel(_) => Moment::After,
        };
        self.parked(&case.key, moment).await?;
        self.met.set(true);
        self.arena.vmop.kill().await;
        self.arena.proxy.order(|orders| orders.park = None);
        self.arena.world.control().remove_faults(None).await?;
        let Kind::Travel(back) = case.kind else {
            self.arena.vmop.revive().await;
            return Ok(());
        };
        let version = {
            let versions = self.versions.borrow();
            versions.get(versions.len().saturating_sub(1 + back)).cloned()
        };
        let Some(version) = version else { bail!("nothing was asked for before {}", case.key) };
        let (release, released) = tokio::sync::watch::channel(false);
        self.arena.proxy.order(|orders| orders.travel = Some((version, released)));
        self.arena.vmop.revive().await;
        tokio::time::sleep(HELD * 2).await;
        self.arena.proxy.order(|orders| orders.travel = None);
        release.send_replace(true);
        Ok(())
    }

    /// Resolves when the write is stopped at that moment.
    async fn parked(&self, key: &Key, moment: Moment) -> Result<()> {
        if key.side == Side::Api {
            let mut reached = self.arena.proxy.park(key.clone(), moment);
            let _ = reached.wait_for(|reached| *reached).await;
            return Ok(());
        }
        let kind = match moment {
            Moment::Before => FaultKind::ParkCall,
            Moment::After => FaultKind::ParkAnswer,
        };
        let fault = Fault::once(&key.what, kind).after(key.nth - 1);
        let fault = match self.arena.here(&key.object) {
            Some(object) => fault.on(&object),
            None => fault,
        };
        let control = self.arena.world.control();
        control.plant(&fault).await?;
        loop {
            let faults = control.faults().await?;
            if faults["faults"].as_array().is_some_and(|all| all.iter().any(|fault| fault["held"] == 1)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK / 4).await;
        }
    }
}
