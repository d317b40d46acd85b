use api::capw::{WCPMachine, WCPMachineSpec, WCPMachineStatus};
use api::names::annotation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};
use support::api_server::server;

use super::*;
use crate::retry::Disposition;
use crate::runtime::Runtime;
use crate::status::condition;

#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Refused(Disposition);

impl ReconcileError for Refused {
    fn disposition(&self) -> Disposition {
        self.0
    }

    fn label(&self) -> &'static str {
        "Refused"
    }
}

/// A reconciler that records its steps. Each step fails if its error is set.
struct Recorder {
    api: Api,
    steps: Mutex<Vec<String>>,
    paused: bool,
    gathering: Option<Disposition>,
    planning: Option<Disposition>,
    writing: Option<Disposition>,
    /// True if a step of a deletion isn't the last.
    remains: bool,
}

struct Facts {
    paused: bool,
    planning: Option<Disposition>,
}

impl Recorder {
    fn record(&self, step: impl Into<String>) {
        self.steps.lock().push(step.into());
    }
}

fn fail(error: Option<Disposition>) -> Result<(), Refused> {
    error.map_or(Ok(()), |disposition| Err(Refused(disposition)))
}

impl Reconcile for Recorder {
    type Kind = WCPMachine;
    type Facts = Facts;
    type Plan = ();
    type Done = &'static str;
    type Error = Refused;

    fn api(&self) -> &Api {
        &self.api
    }

    fn refused(_machine: &WCPMachine, _error: kube::Error) -> Refused {
        Refused(Disposition::Failed)
    }

    fn suspend(&self, _machine: &WCPMachine) {
        self.record("suspend");
    }

    async fn gather(&self, _machine: &Arc<WCPMachine>) -> Result<Facts, Refused> {
        self.record("gather");
        fail(self.gathering)?;
        Ok(Facts { paused: self.paused, planning: self.planning })
    }

    fn is_paused(_machine: &WCPMachine, facts: &Facts) -> bool {
        facts.paused
    }

    async fn propagate_pause(
        &self,
        _machine: &WCPMachine,
        _facts: &Facts,
        paused: bool,
    ) -> Result<(), Refused> {
        self.record(format!("propagate {paused}"));
        Ok(())
    }

    fn plan(_machine: &WCPMachine, facts: &Facts) -> Result<(), Refused> {
        fail(facts.planning)
    }

    async fn carry_out(
        &self,
        _machine: &mut Arc<WCPMachine>,
        (): (),
        _facts: &Facts,
    ) -> Result<&'static str, Refused> {
        self.record("carry out");
        fail(self.writing).map(|()| "Made")
    }

    async fn delete(
        &self,
        _machine: &Arc<WCPMachine>,
        _facts: &Facts,
    ) -> Result<DeletionProgress<&'static str>, Refused> {
        self.record("delete");
        Ok(if self.remains { DeletionProgress::Remains("Deleting") } else { DeletionProgress::Gone })
    }

    fn status(seen: &Seen<'_, Self>) -> Option<WCPMachineStatus> {
        let reason = match seen.outcome {
            ReconcileOutcome::Paused => "Paused",
            ReconcileOutcome::Done(done) => done,
            ReconcileOutcome::Failed(_) if seen.facts.is_none() => "NotGathered",
            ReconcileOutcome::Failed(_) => "Failed",
        };
        let conditions = vec![condition("Ready", false, reason, "", None)];
        Some(WCPMachineStatus { conditions, ..WCPMachineStatus::default() })
    }

    fn publish(&self, _seen: &Seen<'_, Self>, new: Option<&WCPMachineStatus>) {
        self.record(if new.is_some() { "publish" } else { "publish without status" });
    }

    async fn follow_up(&self, _seen: &Seen<'_, Self>, new: Option<&WCPMachineStatus>) -> Result<(), Refused> {
        let reason = new.map(|new| new.conditions[0].reason.clone()).unwrap_or_default();
        self.record(format!("follow up {reason}"));
        Ok(())
    }

    fn conclude(_done: &'static str) -> Result<Next, Refused> {
        Ok(Next::After(std::time::Duration::from_secs(1)))
    }
}

fn machine() -> WCPMachine {
    let mut machine = WCPMachine::new("machine", WCPMachineSpec::default());
    machine.metadata.namespace = Some("n".into());
    machine.metadata.uid = Some("uid".into());
    machine
}

fn deleted() -> WCPMachine {
    let mut machine = machine();
    machine.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    machine
}

/// The steps of one reconcile, the statuses that were sent, and the result.
async fn run(
    machine: WCPMachine,
    change: impl FnOnce(&mut Recorder),
) -> (Vec<String>, Vec<Value>, Result<Next, Refused>) {
    let (client, requests) = server(|_| (200, json!(self::machine())));
    let api = Api::new(&Runtime::detached(client), "kit/test");
    let mut recorder = Recorder {
        api,
        steps: Mutex::default(),
        paused: false,
        gathering: None,
        planning: None,
        writing: None,
        remains: false,
    };
    change(&mut recorder);
    let recorder = Arc::new(recorder);
    let result = reconcile(Arc::new(machine), Arc::clone(&recorder)).await;
    let sent = requests.lock().iter().map(|request| request.body["status"].clone()).collect();
    let steps = recorder.steps.lock().clone();
    (steps, sent, result)
}

#[tokio::test]
async fn an_object_is_gathered_planned_changed_and_reported() {
    let (steps, sent, result) = run(machine(), |_| {}).await;
    assert_eq!(steps, ["gather", "propagate false", "carry out", "publish", "follow up Made"]);
    assert_eq!(result.unwrap(), Next::After(std::time::Duration::from_secs(1)));
    let time = sent[0]["conditions"][0]["lastTransitionTime"].as_str().unwrap();
    assert!(!time.starts_with("1970"), "the driver sets the time: {time}");
}

#[tokio::test]
async fn a_status_that_is_the_same_is_neither_sent_nor_published() {
    let (_, sent, _) = run(machine(), |_| {}).await;
    let mut again = machine();
    again.status = Some(serde_json::from_value(sent[0].clone()).unwrap());
    let (steps, sent, _) = run(again, |_| {}).await;
    assert_eq!(sent, Vec::<Value>::new());
    assert_eq!(steps[3..], ["publish without status", "follow up Made"]);
}

#[tokio::test]
async fn an_object_that_moves_is_left_alone_even_while_it_is_deleted() {
    let mut moving = deleted();
    moving.metadata.annotations = Some([(annotation::DELETE_FOR_MOVE.to_owned(), String::new())].into());
    let (steps, sent, result) = run(moving, |_| {}).await;
    assert_eq!(steps, ["suspend"]);
    assert_eq!(sent, Vec::<Value>::new());
    assert_eq!(result.unwrap(), Next::OnChange);
}

#[tokio::test]
async fn a_paused_object_is_reported_and_neither_changed_nor_deleted() {
    for machine in [machine(), deleted()] {
        let (steps, _, result) = run(machine, |recorder| recorder.paused = true).await;
        assert_eq!(steps, ["gather", "suspend", "propagate true", "publish", "follow up Paused"]);
        assert_eq!(result.unwrap(), Next::OnChange);
    }
}

#[tokio::test]
async fn a_deletion_is_reported_until_the_object_is_gone() {
    let (steps, sent, _) = run(deleted(), |recorder| recorder.remains = true).await;
    assert_eq!(steps, ["gather", "suspend", "propagate false", "delete", "publish", "follow up Deleting"]);
    assert_eq!(sent.len(), 1);
    let (steps, sent, _) = run(deleted(), |_| {}).await;
    assert_eq!((steps.last().unwrap().as_str(), sent.len()), ("delete", 0));
}

#[tokio::test]
async fn each_step_that_fails_is_reported_and_ends_the_reconcile() {
    let failed = Some(Disposition::Failed);
    let (steps, _, result) = run(machine(), |recorder| recorder.gathering = failed).await;
    assert_eq!(steps, ["gather", "publish", "follow up NotGathered"]);
    assert!(result.is_err());
    let (steps, ..) = run(machine(), |recorder| recorder.planning = failed).await;
    assert_eq!(steps, ["gather", "propagate false", "publish", "follow up Failed"]);
    let (steps, _, result) = run(machine(), |recorder| recorder.writing = failed).await;
    assert_eq!(steps[2..], ["carry out", "publish", "follow up Failed"]);
    assert!(result.is_err());
}

#[tokio::test]
async fn an_overtaken_reconcile_reports_nothing() {
    let overtaken = Some(Disposition::Overtaken);
    let (steps, sent, result) = run(machine(), |recorder| recorder.writing = overtaken).await;
    assert_eq!((steps.last().unwrap().as_str(), sent.len()), ("carry out", 0));
    assert_eq!(result.unwrap_err().0, Disposition::Overtaken);
}
