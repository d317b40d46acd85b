//! Inventory options and result types, without behavior.

use std::sync::Arc;
use std::time::Duration;

use super::vm::Vm;
use crate::{MoRef, Value};

/// A VM's presence according to the cache.
#[derive(Clone, Debug, PartialEq)]
pub enum Presence {
    /// The VM is below a root, and available.
    Present(Arc<Vm>),
    /// The VM is below a root, but vCenter can't reach it or read its configuration. The values are the last known ones, if
    /// any: don't base decisions on them.
    Unavailable(Arc<Vm>),
    /// The VM isn't below any root: it was moved, destroyed or never created.
    /// [`Inventory::locate`](super::Inventory::locate) tells whether the VM still exists.
    Absent,
    /// The cache is incomplete, so the VM's presence is unknown: don't base decisions on it.
    Unknown,
}

impl Presence {
    /// Returns the VM if it is present and available.
    pub fn present(self) -> Option<Arc<Vm>> {
        match self {
            Self::Present(vm) => Some(vm),
            Self::Unavailable(_) | Self::Absent | Self::Unknown => None,
        }
    }
}

/// A VM's location according to vCenter.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// The VM is below a root.
    Here(Arc<Vm>),
    /// The VM exists outside the roots, or the stream hasn't shown it yet. Its properties were read just now.
    Elsewhere(Arc<Vm>),
    /// A VM exists that is or may be the requested VM, but vCenter can't reach it or read its configuration.
    Unavailable(Arc<Vm>),
    /// The VM doesn't exist.
    Gone,
}

/// An inventory change since the last read.
#[derive(Clone, Debug, PartialEq)]
pub enum InventoryChange {
    /// A VM appeared, changed or left. Several changes to one VM between two reads are merged.
    Vm {
        moref: MoRef,
        /// The VM before the change; `None` if it appeared.
        was: Option<Arc<Vm>>,
        /// The VM after the change; `None` if it left.
        now: Option<Arc<Vm>>,
    },
    /// The cache became complete, for the first time or again: waiting callers can decide now.
    Complete,
    /// The cache isn't complete any more.
    Incomplete,
}

/// A successful task's result.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskResult {
    /// The reference of the created object (clone, snapshot); null for most other tasks.
    pub result: Value,
}

impl TaskResult {
    /// Returns the object that the task created.
    pub fn moref(&self) -> Option<&MoRef> {
        self.result.as_moref()
    }
}

/// Inventory options: the ExtraConfig keys to keep, and the read pace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefixes of the ExtraConfig keys to keep with their values.
    ///
    /// These prefixes don't affect `guestinfo.` keys: only `guestinfo.local-` and `guestinfo.vmservice.` keys are kept,
    /// because all others may contain secrets.
    pub extra_config: Vec<String>,
    /// The number of stream reads that may follow each other without a pause.
    pub burst: u32,
    /// The minimum interval between stream reads, and between additions to the task list, after a burst.
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
