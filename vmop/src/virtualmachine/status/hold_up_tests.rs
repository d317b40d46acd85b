//! Tests that `Ready` names what delays an operation in vCenter.

use api::conditions::{self, Condition, READY};
use vsphere::inventory::PowerState;
use vsphere::{AwaitedTask, MoRef, Vm};

use super::{Outcome, StepProgress, compute_status};
use crate::testing::fixtures::{self, at, facts, needs};
use crate::virtualmachine::identity::find::Found;

fn ready(found: Found, outcome: &Outcome<'_>) -> (String, String) {
    let status = compute_status(&fixtures::virtual_machine(), Some(&facts(found)), outcome);
    let Condition { reason, message, .. } = conditions::find(&status.conditions, READY).unwrap().clone();
    (reason.unwrap_or_default(), message.unwrap_or_default())
}

fn powered_off() -> Vm {
    Vm { power_state: Some(PowerState::Off), ..fixtures::vsphere_vm() }
}

#[test]
fn a_question_of_vcenter_is_quoted_with_the_way_to_answer_it() {
    let asked = Vm { question: Some("The disk is full".to_owned()), ..powered_off() };
    for outcome in [Outcome::Underway(StepProgress::default()), Outcome::Done(None)] {
        let (reason, message) = ready(Found::Ours(asked.clone().into()), &outcome);
        assert_eq!(reason, "QuestionPending");
        assert!(
            message.contains("\"The disk is full\"") && message.contains("govc vm.question"),
            "{message}"
        );
    }
    let running = Vm { question: asked.question, ..fixtures::addressed_vm() };
    assert_eq!(ready(Found::Ours(running.into()), &Outcome::Done(None)).0, "QuestionPending");
}

#[test]
fn a_task_that_takes_longer_than_usual_is_named_with_its_time() {
    let overdue = || Some(AwaitedTask { task: MoRef::task("task-7"), since: at(0) });
    let underway = || Outcome::Underway(StepProgress { vsphere_vm: None, overdue: overdue() });
    let (reason, message) = ready(Found::Ours(powered_off().into()), &underway());
    assert_eq!(reason, "TaskOverdue");
    assert!(message.contains("task-7 since ") && message.contains("unusually long"), "{message}");
    let status = compute_status(
        &fixtures::virtual_machine(),
        Some(&fixtures::facts_of_creation(needs())),
        &underway(),
    );
    let ready = conditions::find(&status.conditions, READY).unwrap();
    assert_eq!(ready.reason.as_deref(), Some("TaskOverdue"));
    let usual = ready_of_usual();
    assert_ne!(usual, "TaskOverdue");
}

fn ready_of_usual() -> String {
    ready(Found::Ours(powered_off().into()), &Outcome::Underway(StepProgress::default())).0
}
