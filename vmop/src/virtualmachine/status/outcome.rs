//! What a reconcile came to, for the status.

use std::sync::Arc;

use vsphere::Vm;

use crate::virtualmachine::error::Error;

/// What a reconcile came to.
pub enum Outcome<'a> {
    /// It came through; the VM as it is now, where it was created or changed.
    Done(Option<&'a Vm>),
    /// It is at it, and it takes a while.
    Underway,
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
            Self::Done(_) | Self::Underway => None,
        }
    }
}
