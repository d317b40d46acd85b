//! Keeps track of the tasks that callers wait for, as a state machine without I/O.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::types::TaskResult;
use super::update::{ObjectUpdate, UpdateKind};
use crate::{Error, Fault, Kind, MoRef, Result, Value};

pub(super) type Outcome = Result<TaskResult>;

/// The tasks that callers wait for, by reference, until they end.
#[derive(Default)]
pub(super) struct Tasks {
    pending: HashMap<MoRef, Pending>,
    /// Tasks that are not in vCenter's ListView of tasks yet.
    to_add: Vec<MoRef>,
    /// Ended tasks that are still in vCenter's ListView of tasks.
    to_remove: Vec<MoRef>,
    closed: bool,
}

#[derive(Default)]
struct Pending {
    /// The description ID, such as `VirtualMachine.clone`.
    what: String,
    state: String,
    error: Value,
    result: Value,
    waiters: Vec<oneshot::Sender<Outcome>>,
}

/// Pending changes to vCenter's ListView of tasks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Batch {
    pub add: Vec<MoRef>,
    pub remove: Vec<MoRef>,
}

impl Tasks {
    /// Returns a receiver for a task's outcome, and queues a new task for the ListView.
    pub fn wait(&mut self, task: &MoRef) -> oneshot::Receiver<Outcome> {
        let (sender, outcome) = oneshot::channel();
        if self.closed {
            // The sender is dropped, so the receiver fails at once.
            return outcome;
        }
        let pending = self.pending.entry(task.clone()).or_insert_with(|| {
            self.to_add.push(task.clone());
            Pending::default()
        });
        pending.waiters.push(sender);
        outcome
    }

    /// Returns true if a task that a caller waits for must be added to the ListView.
    pub fn due(&self) -> bool {
        !self.to_add.is_empty()
    }

    /// Takes the pending changes to the ListView. Ended tasks alone don't make an update necessary: they are removed with the
    /// next addition.
    pub fn batch(&mut self) -> Batch {
        Batch { add: std::mem::take(&mut self.to_add), remove: std::mem::take(&mut self.to_remove) }
    }

    /// Puts the changes of an unapplied batch back into the queue, except additions of tasks that have ended meanwhile.
    pub fn put_back(&mut self, batch: Batch) {
        for task in batch.add {
            if self.pending.contains_key(&task) && !self.to_add.contains(&task) {
                self.to_add.push(task);
            }
        }
        self.to_remove.extend(batch.remove);
    }

    /// Queues all pending tasks for a new, empty list.
    pub fn list_is_new(&mut self) {
        self.to_remove.clear();
        self.to_add = self.pending.keys().cloned().collect();
    }

    /// Fails a task that vCenter doesn't know any more.
    pub fn forgotten(&mut self, task: &MoRef) {
        let error = Error::new("Task", Kind::NotFound { missing: Some(task.clone()) }).on(task);
        self.end(task, &Err(error));
    }

    /// Fails all pending and future tasks with `Canceled`, because the stream has ended.
    pub fn abandon(&mut self) {
        self.closed = true;
        let tasks: Vec<MoRef> = self.pending.keys().cloned().collect();
        for task in tasks {
            self.end(&task, &Err(Error::new("Task", Kind::Canceled).on(&task)));
        }
    }

    pub fn apply(&mut self, update: ObjectUpdate) {
        let ObjectUpdate { obj, kind, changes } = update;
        let Some(pending) = self.pending.get_mut(&obj) else { return };
        if kind == UpdateKind::Leave {
            return self.forgotten(&obj);
        }
        for (path, value) in changes {
            match path.as_str() {
                "info.state" => value.as_str().unwrap_or_default().clone_into(&mut pending.state),
                "info.descriptionId" => value.as_str().unwrap_or_default().clone_into(&mut pending.what),
                "info.error" => pending.error = value,
                "info.result" => pending.result = value,
                _ => {}
            }
        }
        match pending.state.as_str() {
            "success" => {
                let result = std::mem::take(&mut pending.result);
                self.end(&obj, &Ok(TaskResult { result }));
            }
            "error" => {
                let what =
                    if pending.what.is_empty() { "Task".into() } else { std::mem::take(&mut pending.what) };
                let error = Error::from_fault(what, Fault::read(&pending.error)).on(&obj);
                self.end(&obj, &Err(error));
            }
            _ => {}
        }
    }

    fn end(&mut self, task: &MoRef, outcome: &Outcome) {
        let Some(pending) = self.pending.remove(task) else { return };
        self.to_add.retain(|other| other != task);
        self.to_remove.push(task.clone());
        for waiter in pending.waiters {
            // Ignore receivers that were dropped.
            drop(waiter.send(outcome.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    fn update(kind: UpdateKind, changes: &[(&str, Value)]) -> ObjectUpdate {
        let changes = changes.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
        ObjectUpdate { obj: MoRef::task("task-1"), kind, changes }
    }

    fn waiting() -> (Tasks, oneshot::Receiver<Outcome>) {
        let mut tasks = Tasks::default();
        let outcome = tasks.wait(&MoRef::task("task-1"));
        (tasks, outcome)
    }

    #[test]
    fn success_is_reported_once_with_what_was_made() {
        let (mut tasks, mut outcome) = waiting();
        tasks.apply(update(UpdateKind::Enter, &[("info.state", "running".into())]));
        assert!(outcome.try_recv().is_err());
        let made = Value::from(MoRef::vm("vm-9"));
        tasks.apply(update(UpdateKind::Modify, &[("info.state", "success".into()), ("info.result", made)]));
        // The simulator's property collector may repeat outdated states.
        tasks.apply(update(UpdateKind::Modify, &[("info.state", "running".into())]));
        assert_eq!(outcome.try_recv().unwrap().unwrap().moref(), Some(&MoRef::vm("vm-9")));
    }

    #[test]
    fn failure_is_reported_with_its_fault() {
        let (mut tasks, mut outcome) = waiting();
        let fault = Object::new("LocalizedMethodFault")
            .with("fault", Object::new("InsufficientMemoryResourcesFault"))
            .with("localizedMessage", "no memory");
        tasks.apply(update(
            UpdateKind::Enter,
            &[
                ("info.descriptionId", "VirtualMachine.clone".into()),
                ("info.state", "error".into()),
                ("info.error", fault.into()),
            ],
        ));
        let error = outcome.try_recv().unwrap().unwrap_err();
        assert_eq!(error.category(), "InsufficientResources");
        assert_eq!(
            error.to_string(),
            "VirtualMachine.clone on Task:task-1: no memory (InsufficientMemoryResourcesFault)"
        );
    }

    #[test]
    fn a_forgotten_task_is_not_found() {
        for forget in [
            |tasks: &mut Tasks| tasks.forgotten(&MoRef::task("task-1")),
            |tasks: &mut Tasks| {
                tasks.apply(update(UpdateKind::Leave, &[]));
            },
        ] {
            let (mut tasks, mut outcome) = waiting();
            forget(&mut tasks);
            assert!(outcome.try_recv().unwrap().unwrap_err().is_not_found());
        }
    }

    #[test]
    fn the_list_learns_of_each_task_once_and_of_ended_ones_in_passing() {
        let (mut tasks, _first) = waiting();
        let _second = tasks.wait(&MoRef::task("task-1"));
        let batch = tasks.batch();
        assert_eq!(batch.add, [MoRef::task("task-1")]);
        assert!(!tasks.due());
        tasks.put_back(batch);
        assert!(tasks.due());
        let batch = tasks.batch();
        assert_eq!(batch.add.len(), 1);
        tasks.apply(update(UpdateKind::Modify, &[("info.state", "success".into())]));
        assert!(!tasks.due(), "an end alone is not worth a call");
        let _third = tasks.wait(&MoRef::task("task-2"));
        assert_eq!(
            tasks.batch(),
            Batch { add: vec![MoRef::task("task-2")], remove: vec![MoRef::task("task-1")] }
        );

        tasks.list_is_new();
        assert_eq!(tasks.batch(), Batch { add: vec![MoRef::task("task-2")], remove: Vec::new() });
    }
}
