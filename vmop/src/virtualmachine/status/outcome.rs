//! What a reconcile came to, for the status.

use std::sync::Arc;

use vsphere::{AwaitedTask, Vm};

use crate::virtualmachine::error::Error;

/// How far a step is that takes a while.
#[derive(Default)]
pub struct Progress<'a> {
    /// The VM as it is now, where vCenter shows it.
    pub vsphere_vm: Option<&'a Vm>,
    /// The task that has run for longer than usual.
    pub overdue: Option<AwaitedTask>,
}

/// Describes a task that has run for longer than usual. The remedy is in vCenter.
pub fn describe_overdue(awaited: &AwaitedTask) -> String {
    let AwaitedTask { task, since } = awaited;
    format!(
        "vCenter has worked on {} since {since:.0}, which is unusually long. Look at the task and at the VM in the vSphere Client: a task can wait for a question, for storage, or for a host",
        task.id()
    )
}

/// What a reconcile came to.
pub enum Outcome<'a> {
    /// It came through; the VM as it is now, where it was created or changed.
    Done(Option<&'a Vm>),
    /// It is at it, and it takes a while.
    Underway(Progress<'a>),
    /// It did not come through.
    Stopped(&'a Error),
}

impl<'a> Outcome<'a> {
    /// What carrying out a plan came to.
    pub fn of(result: &'a Result<Option<Arc<Vm>>, Error>) -> Self {
        match result {
            Ok(vsphere_vm) => Self::Done(vsphere_vm.as_deref()),
            Err(error) => Self::Stopped(error),
        }
    }

    /// Why it did not come through.
    pub fn error(&self) -> Option<&'a Error> {
        match self {
            Self::Stopped(error) => Some(error),
            Self::Done(_) | Self::Underway(_) => None,
        }
    }
}
