//! Runs the workload in a new namespace, with at most one fault, and returns the outcome.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use sim::control::{FaultKind, FaultRule};
use tokio::time::Instant;

use super::environment::{FaultTestbed, Namespace};
use super::state::CanonicalState;
use super::workload::{ObjectView, Stage, send_request, stages};
use crate::proxy::injections::{CaseKey, KeyCounter, ParkPoint, Side};

/// The timeout per step.
const TIMEOUT: Duration = Duration::from_secs(40);
/// The idle time after which the state counts as settled.
const SILENCE: Duration = Duration::from_millis(900);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time for which an event is delayed. A view stays old for twice this time.
const HELD: Duration = Duration::from_millis(500);

/// A fault at a write or event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FaultCase {
    pub key: CaseKey,
    pub kind: CaseKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaseKind {
    /// The VM operator is killed just before the write, or after the write but before the response.
    Kill(ParkPoint),
    /// The event is delayed by [`HELD`].
    Hold,
    /// The VM operator is killed after the write. After its restart, it reads the state that the API server had this many
    /// steps earlier.
    Travel(usize),
}

impl CaseKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill(ParkPoint::Before) => "killBefore",
            Self::Kill(ParkPoint::After) => "killAfter",
            Self::Hold => "watchHeld",
            Self::Travel(_) => "timeTravel",
        }
    }
}

/// A run's outcome.
#[derive(Debug, Default)]
pub struct RunOutcome {
    /// The states after the steps that are compared.
    pub states: Vec<CanonicalState>,
    pub writes: Vec<CaseKey>,
    pub events: Vec<CaseKey>,
    /// True if the fault was injected.
    pub injected: bool,
    /// The violations at the end, and the state in which they were found.
    pub wrong: Option<(Vec<String>, Option<CanonicalState>)>,
}

struct Run<'a> {
    environment: &'a FaultTestbed,
    namespace: Namespace,
    versions: RefCell<Vec<String>>,
    injected: Cell<bool>,
}

/// Runs the workload in a new namespace and clears it. `wanted` contains a clean run's states.
pub async fn run_workload(
    environment: &FaultTestbed,
    name: &str,
    case: Option<&FaultCase>,
    wanted: Option<&[CanonicalState]>,
) -> Result<RunOutcome> {
    let namespace = environment.create_namespace(name).await?;
    environment.proxy.reset();
    environment.testbed.control().take_journal().await?;
    let run = Run { environment, namespace, versions: RefCell::default(), injected: Cell::new(false) };
    let failures = environment.vmop.state().failures;
    let injection = async {
        if let Some(case) = case {
            run.inject(case).await?;
        }
        std::future::pending::<Result<()>>().await
    };
    let mut ran = RunOutcome::default();
    let outcome = tokio::select! {
        outcome = run.run_stages(wanted, &mut ran) => outcome,
        failed = injection => failed,
    };
    environment.vmop.kill().await;
    ran.injected = run.injected.get()
        || environment.proxy.with_injections(|injections| injections.injected.contains_key("watchHeld"));
    (ran.writes, ran.events) = run.take_keys().await?;
    if environment.vmop.state().failures > failures {
        ran.wrong = Some((vec!["the VM operator ended by itself".to_owned()], None));
    }
    environment.proxy.reset();
    environment.clear_namespace(&run.namespace).await?;
    outcome.map(|()| ran)
}

impl Run<'_> {
    async fn run_stages(&self, wanted: Option<&[CanonicalState]>, ran: &mut RunOutcome) -> Result<()> {
        let began = Instant::now();
        self.environment.vmop.revive().await;
        self.wait_until_watching().await;
        tracing::debug!(after = ?began.elapsed(), "watched");
        for stage in stages() {
            let version = self.environment.resource_version().await?;
            self.versions.borrow_mut().push(version);
            for request in &stage.requests {
                send_request(self.environment, &self.namespace, request).await?;
            }
            if let Some(unfinished) = self.wait_for_stage(&stage).await? {
                let state = CanonicalState::read(self.environment, &self.namespace).await?;
                ran.wrong = Some((vec![format!("step {}: {unfinished}", stage.name)], Some(state)));
                return Ok(());
            }
            tracing::debug!(stage = stage.name, after = ?began.elapsed(), "reached");
            self.environment.search_for_secrets(&self.namespace).await?;
            if !stage.compared {
                continue;
            }
            let (state, differences) = match wanted.and_then(|wanted| wanted.get(ran.states.len())) {
                Some(wanted) => self.wait_until_like(wanted).await?,
                None => (self.wait_until_settled().await?, Vec::new()),
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

    /// Waits until the VM operator has started its watches, so that it receives all later changes as events in each
    /// run.
    async fn wait_until_watching(&self) {
        let resources = ["virtualmachines", "virtualmachinesetresourcepolicies", "virtualmachineimages"];
        let all = |watched: &BTreeSet<String>| resources.iter().all(|resource| watched.contains(*resource));
        let deadline = Instant::now() + TIMEOUT;
        while !self.environment.proxy.with_injections(|injections| all(&injections.watched))
            && Instant::now() < deadline
            && !self.injected.get()
        {
            tokio::time::sleep(POLL_INTERVAL / 4).await;
        }
    }

    /// Waits until the step is done. After a timeout, returns the reason why it isn't.
    async fn wait_for_stage(&self, stage: &Stage) -> Result<Option<String>> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let unfinished = (stage.unfinished)(&ObjectView::read(self.environment, &self.namespace).await?);
            if unfinished.is_none() || Instant::now() >= deadline {
                return Ok(unfinished);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the proxy is idle for [`SILENCE`], and returns the state.
    async fn wait_until_settled(&self) -> Result<CanonicalState> {
        let deadline = Instant::now() + TIMEOUT;
        while self.environment.proxy.idle_time() < SILENCE && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        CanonicalState::read(self.environment, &self.namespace).await
    }

    /// Waits until the state equals `wanted`. After a timeout, returns the last state and its differences.
    async fn wait_until_like(&self, wanted: &CanonicalState) -> Result<(CanonicalState, Vec<String>)> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let state = CanonicalState::read(self.environment, &self.namespace).await?;
            let differences = wanted.differences(&state);
            if differences.is_empty() && state.findings.is_empty() || Instant::now() >= deadline {
                return Ok((state, differences));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn take_keys(&self) -> Result<(Vec<CaseKey>, Vec<CaseKey>)> {
        let (mut writes, events) = self
            .environment
            .proxy
            .with_injections(|injections| (injections.writes.all(), injections.events.all()));
        let mut counter = KeyCounter::default();
        for call in self.environment.testbed.control().take_journal().await? {
            let object = self.environment.canonical_name(&call.object);
            counter.count(Side::Vcenter, call.method, object);
        }
        writes.extend(counter.all());
        Ok((writes, events))
    }

    /// Injects the case's fault.
    async fn inject(&self, case: &FaultCase) -> Result<()> {
        let point = match case.kind {
            CaseKind::Hold => {
                self.environment
                    .proxy
                    .with_injections(|injections| injections.hold = Some((case.key.clone(), HELD)));
                return Ok(());
            }
            CaseKind::Kill(point) => point,
            CaseKind::Travel(_) => ParkPoint::After,
        };
        self.wait_until_parked(&case.key, point).await?;
        self.injected.set(true);
        self.environment.vmop.kill().await;
        self.environment.proxy.with_injections(|injections| injections.park = None);
        self.environment.testbed.control().remove_faults(None).await?;
        let CaseKind::Travel(back) = case.kind else {
            self.environment.vmop.revive().await;
            return Ok(());
        };
        let version = {
            let versions = self.versions.borrow();
            versions.get(versions.len().saturating_sub(1 + back)).cloned()
        };
        let Some(version) = version else { bail!("nothing was asked for before {}", case.key) };
        let (release, released) = tokio::sync::watch::channel(false);
        self.environment.proxy.with_injections(|injections| injections.travel = Some((version, released)));
        self.environment.vmop.revive().await;
        tokio::time::sleep(HELD * 2).await;
        self.environment.proxy.with_injections(|injections| injections.travel = None);
        release.send_replace(true);
        Ok(())
    }

    /// Waits until the write is parked at the given point.
    async fn wait_until_parked(&self, key: &CaseKey, point: ParkPoint) -> Result<()> {
        if key.side == Side::Api {
            let mut reached = self.environment.proxy.park(key.clone(), point);
            let _ = reached.wait_for(|reached| *reached).await;
            return Ok(());
        }
        let kind = match point {
            ParkPoint::Before => FaultKind::ParkCall,
            ParkPoint::After => FaultKind::ParkAnswer,
        };
        let fault = FaultRule::once(&key.what, kind).after(key.nth - 1);
        let fault = match self.environment.local_name(&key.object) {
            Some(object) => fault.on(&object),
            None => fault,
        };
        let control = self.environment.testbed.control();
        control.plant(&fault).await?;
        loop {
            let faults = control.faults().await?;
            if faults["faults"].as_array().is_some_and(|all| all.iter().any(|fault| fault["held"] == 1)) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL / 4).await;
        }
    }
}
