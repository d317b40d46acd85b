//! The outcome of a reconcile, as input for the status.

use std::sync::Arc;

use vsphere::{AwaitedTask, Vm};

use crate::virtualmachine::error::Error;

/// The progress of a slow step.
#[derive(Default)]
pub struct StepProgress<'a> {
    /// The VM in its current state, if the inventory contains it.
    pub vsphere_vm: Option<&'a Vm>,
    /// A task that has run for longer than usual.
    pub overdue: Option<AwaitedTask>,
}

/// Describes a task that has run for longer than usual. The message tells users to act in vCenter.
pub fn describe_overdue(awaited: &AwaitedTask) -> String {
    let AwaitedTask { task, since } = awaited;
    format!(
        "vCenter has worked on {} since {since:.0}, which is unusually long. Look at the task and at the VM in the vSphere Client: a task can wait for a question, for storage, or for a host",
        task.id()
    )
}

/// The outcome of a reconcile.
pub enum Outcome<'a> {
    /// The reconcile succeeded. Contains the VM if it was created or changed.
    Done(Option<&'a Vm>),
    /// The reconcile is still running a slow step.
    Underway(StepProgress<'a>),
    /// The reconcile stopped with an error.
    Stopped(&'a Error),
}

impl<'a> Outcome<'a> {
    /// Converts the result of carrying out a plan.
    pub fn of(result: &'a Result<Option<Arc<Vm>>, Error>) -> Self {
        match result {
            Ok(vsphere_vm) => Self::Done(vsphere_vm.as_deref()),
            Err(error) => Self::Stopped(error),
        }
    }

    /// Returns the error that stopped the reconcile.
    pub fn error(&self) -> Option<&'a Error> {
        match self {
            Self::Stopped(error) => Some(error),
            Self::Done(_) | Self::Underway(_) => None,
        }
    }
}
