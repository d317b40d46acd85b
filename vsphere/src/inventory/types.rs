//! What an inventory is asked with and what it answers. No behaviour.

use std::sync::Arc;
use std::time::Duration;

use super::vm::Vm;
use crate::{MoRef, Value};

/// What the cache says about a VM.
#[derive(Clone, Debug, PartialEq)]
pub enum Presence {
    /// It is below one of the roots.
    Present(Arc<Vm>),
    /// It is below one of the roots, and vCenter does not reach it or can't read its configuration: what is known of it
    /// is from before, if anything is. Decide nothing.
    Unavailable(Arc<Vm>),
    /// It is below none of the roots: moved, destroyed or never made. [`Inventory::locate`](super::Inventory::locate) finds out which.
    Absent,
    /// The cache is not complete; decide nothing.
    Unknown,
}

impl Presence {
    /// The VM, if it is present and can be reached.
    pub fn present(self) -> Option<Arc<Vm>> {
        match self {
            Self::Present(vm) => Some(vm),
            Self::Unavailable(_) | Self::Absent | Self::Unknown => None,
        }
    }
}

/// What vCenter itself says about a VM.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// It is below one of the roots.
    Here(Arc<Vm>),
    /// It exists, below none of the roots (or the stream has not shown it yet); read just now.
    Elsewhere(Arc<Vm>),
    /// It exists, or a VM does that may be it, and vCenter can't read its configuration.
    Unavailable(Arc<Vm>),
    /// It does not exist.
    Gone,
}

/// What happened in the inventory since the last read.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A VM appeared, changed or left; changes of one VM between two reads are one.
    Vm {
        /// Its reference.
        moref: MoRef,
        /// As it was before, `None` if it appeared.
        was: Option<Arc<Vm>>,
        /// As it is, `None` if it left.
        now: Option<Arc<Vm>>,
    },
    /// The cache became complete, at first or anew: whatever waited for it may decide now.
    Complete,
    /// The cache is not complete any more.
    Incomplete,
}

/// A finished task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskResult {
    /// What it made: the reference of a clone or a snapshot, null for most others.
    pub result: Value,
}

impl TaskResult {
    /// The object that the task made.
    pub fn moref(&self) -> Option<&MoRef> {
        self.result.as_moref()
    }
}

/// What to keep of the VMs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefixes of the ExtraConfig keys that are kept with their values.
    ///
    /// Of guestinfo only `guestinfo.local-` and `guestinfo.vmservice.` are ever kept: the rest is secret.
    pub extra_config: Vec<String>,
    /// Reads of the stream that may follow each other at once.
    pub burst: u32,
    /// The shortest time between reads of the stream, and between additions to the list of tasks, after that.
    pub pace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            extra_config: vec!["vmservice.".into(), "layercake.".into()],
            burst: 4,
            pace: Duration::from_millis(500),
        }
    }
}
