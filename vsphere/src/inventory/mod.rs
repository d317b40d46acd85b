//! A cache of every virtual machine below some folders, kept by one long poll.
//!
//! One ListView of ContainerViews (one per root folder), one ListView of tasks and one property
//! filter feed it. Nothing is polled: at rest the long poll is the only call. A cache that is not
//! complete (start, new session, restarted vCenter) answers `Unknown`, so that nobody acts on it.

mod vm;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

pub use vm::{Guest, GuestInfo, GuestNic, PowerState, ToolsState, Vm};

use crate::{Client, Error, Kind, MoRef, Result, Value};

/// What the cache says about a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Presence {
    /// It is below one of the roots.
    Present(Arc<Vm>),
    /// It is below none of the roots: moved, destroyed or never made. [`Inventory::locate`] tells which.
    Absent,
    /// The cache is not complete; decide nothing.
    Unknown,
}

impl Presence {
    /// The machine, if it is present.
    pub fn present(self) -> Option<Arc<Vm>> {
        match self {
            Self::Present(vm) => Some(vm),
            Self::Absent | Self::Unknown => None,
        }
    }
}

/// What vCenter itself says about a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// It is below one of the roots.
    Here(Arc<Vm>),
    /// It exists, below none of the roots (or the stream has not told of it yet); read just now.
    Elsewhere(Arc<Vm>),
    /// It does not exist.
    Gone,
}

/// What happened in the inventory since the last read.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A machine appeared, changed or left; changes of one machine between two reads are one.
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

/// What to keep of the machines.
#[derive(Clone, Debug)]
pub struct Options {
    /// Prefixes of the ExtraConfig keys that are kept with their values.
    ///
    /// Of guestinfo only `guestinfo.local-` and `guestinfo.vmservice.` are ever kept: the rest is secret.
    pub extra_config: Vec<String>,
    /// Reads of the stream that may follow each other at once.
    pub burst: u32,
    /// The shortest time between reads of the stream after that.
    pub pace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            extra_config: vec!["vmservice.".into(), "layercake.".into()],
            burst: 4,
            pace: Duration::from_millis(330),
        }
    }
}

/// The cache and its stream. Clones share it; it ends with the last clone or by [`Inventory::stop`].
#[derive(Clone)]
pub struct Inventory {
    client: Client,
}

impl Inventory {
    /// Starts the stream over all machines below these folders.
    pub fn start(client: Client, roots: Vec<MoRef>, _options: Options) -> Self {
        drop(roots);
        Self { client }
    }

    /// Adds a folder; returns once its machines are in the cache.
    pub async fn add_root(&self, folder: &MoRef) -> Result<()> {
        Err(stub(folder))
    }

    /// The folders, as asked for.
    pub fn roots(&self) -> Vec<MoRef> {
        Vec::new()
    }

    /// Whether everything below the roots is in the cache.
    pub fn complete(&self) -> bool {
        false
    }

    /// Waits until the cache is complete.
    pub async fn completed(&self) {}

    /// Why the cache is not complete, if vCenter says.
    pub fn trouble(&self) -> Option<Error> {
        None
    }

    /// Grows each time the cache is rebuilt.
    pub fn generation(&self) -> u64 {
        0
    }

    /// The machine with that reference.
    pub fn vm(&self, _moref: &MoRef) -> Presence {
        Presence::Unknown
    }

    /// The machine with that instance UUID.
    pub fn by_uuid(&self, _instance_uuid: Uuid) -> Presence {
        Presence::Unknown
    }

    /// The machine of that name in that folder.
    pub fn by_name(&self, _folder: &MoRef, _name: &str) -> Presence {
        Presence::Unknown
    }

    /// All machines, in no order.
    pub fn all(&self) -> Vec<Arc<Vm>> {
        Vec::new()
    }

    /// Where the machine with that instance UUID is: from the cache, else by one question to vCenter.
    pub async fn locate(&self, _instance_uuid: Uuid) -> Result<Location> {
        Ok(Location::Gone)
    }

    /// Waits until the machine is in the cache, as after its clone.
    pub async fn entered(&self, moref: &MoRef, _deadline: Duration) -> Result<Arc<Vm>> {
        Err(stub(moref))
    }

    /// Reads what happens from now on.
    pub fn subscribe(&self) -> Changes {
        Changes {}
    }

    /// Waits for the end of a task; its failure is the error, on the object that the task works on.
    ///
    /// `NotFound` means that vCenter has forgotten the task: look at the object.
    pub async fn task(&self, task: &MoRef) -> Result<TaskResult> {
        Err(stub(task))
    }

    /// The client that it reads through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Ends the stream and removes the views from vCenter.
    pub async fn stop(&self) {}
}

fn stub(object: &MoRef) -> Error {
    Error::new("WaitForUpdatesEx", Kind::Unsupported { what: "not written yet".into() }).on(object)
}

/// The changes that one subscriber has not read yet.
pub struct Changes {}

impl Changes {
    /// Waits for changes and takes them all, one per machine. `None` when the inventory has stopped.
    pub async fn next(&mut self) -> Option<Vec<Change>> {
        std::future::pending().await
    }
}
