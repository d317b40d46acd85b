//! The state that the stream writes and the [`Inventory`](super::Inventory) handles read.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot, watch};

use super::cache::{Delta, VmCache};
use super::changes::{Changes, Subscribers};
use super::tasks::{Outcome, Tasks};
use super::types::{Options, Presence};
use super::update::UpdateSet;
use super::vm::Vm;
use crate::session::SessionHandle;
use crate::{Client, Error, MoRef};

pub(super) struct Shared {
    pub client: Client,
    pub options: Options,
    pub state: RwLock<InventoryState>,
    pub tasks: Mutex<Tasks>,
    /// Wakes the task list loop when a caller waits for a task that isn't in the ListView of tasks yet.
    pub tasks_due: Notify,
    /// The current session's views and filter, if they exist.
    pub built: watch::Sender<Option<Arc<Built>>>,
    /// Makes the stream rebuild the views and the filter when they seem to be lost.
    pub broken: Notify,
    pub status: watch::Sender<Status>,
    /// A counter that increases whenever the cache or its completeness changes.
    pub revision: watch::Sender<u64>,
    /// Held while a root folder is added, so that roots are added one at a time.
    pub adding: AsyncMutex<()>,
    subscribers: Subscribers,
}

pub(super) struct InventoryState {
    pub cache: VmCache,
    pub roots: Vec<MoRef>,
    pub trouble: Option<Error>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub complete: bool,
    pub generation: u64,
}

/// The views in vCenter that belong to one session and end with that session.
pub(super) struct Built {
    pub live: SessionHandle,
    pub collector: MoRef,
    /// The ListView of ContainerViews.
    pub containers: MoRef,
    /// The ListView of tasks.
    pub task_list: MoRef,
    /// The roots that have a ContainerView.
    pub roots: Mutex<Vec<MoRef>>,
}

impl Shared {
    pub fn new(client: Client, roots: Vec<MoRef>, options: Options) -> Self {
        let cache = VmCache::new(options.extra_config.clone());
        Self {
            client,
            options,
            state: RwLock::new(InventoryState { cache, roots, trouble: None }),
            tasks: Mutex::default(),
            tasks_due: Notify::new(),
            built: watch::Sender::new(None),
            broken: Notify::new(),
            status: watch::Sender::new(Status::default()),
            revision: watch::Sender::new(0),
            adding: AsyncMutex::new(()),
            subscribers: Subscribers::default(),
        }
    }

    pub fn presence(&self, find: impl FnOnce(&VmCache) -> Option<&Arc<Vm>>) -> Presence {
        if !self.status.borrow().complete {
            return Presence::Unknown;
        }
        match find(&self.state.read().cache) {
            Some(vm) if vm.is_available() => Presence::Present(vm.clone()),
            Some(vm) => Presence::Unavailable(vm.clone()),
            None => Presence::Absent,
        }
    }

    pub fn subscribe(&self) -> Changes {
        self.subscribers.subscribe()
    }

    pub fn wait_for_task(&self, task: &MoRef) -> oneshot::Receiver<Outcome> {
        let (outcome, due) = {
            let mut tasks = self.tasks.lock();
            (tasks.wait(task), tasks.due())
        };
        if due {
            self.tasks_due.notify_one();
        }
        outcome
    }

    /// Applies one response from the stream. VMs are applied before tasks, so that a caller that awaits a clone task
    /// finds the clone in the cache.
    ///
    /// Objects of other types, which weren't requested, are skipped.
    pub fn apply(&self, set: UpdateSet) {
        let (mut tasks, mut vms) = (Vec::new(), Vec::new());
        for update in set.objects {
            match update.obj.kind() {
                "Task" => tasks.push(update),
                "VirtualMachine" => vms.push(update),
                _ => {}
            }
        }
        let deltas: Vec<Delta> = {
            let cache = &mut self.state.write().cache;
            vms.into_iter().filter_map(|update| cache.apply(update)).collect()
        };
        self.publish(&deltas);
        if !tasks.is_empty() {
            let mut waiting = self.tasks.lock();
            for update in tasks {
                waiting.apply(update);
            }
        }
    }

    pub fn publish(&self, deltas: &[Delta]) {
        if deltas.is_empty() {
            return;
        }
        let vms = self.state.read().cache.len();
        self.client.config().metrics.vms.set(i64::try_from(vms).unwrap_or(i64::MAX));
        self.revision.send_modify(|revision| *revision += 1);
        self.subscribers.notify(deltas, None);
    }

    /// Begins a rebuild: the stream resends everything from here on.
    pub fn begin(&self) {
        self.state.write().cache.begin();
        self.set_complete(false);
        self.status.send_modify(|status| status.generation += 1);
    }

    /// Ends a rebuild: removes the VMs that were not resent and marks the cache as complete.
    pub fn finish(&self) {
        let gone = {
            let mut state = self.state.write();
            state.trouble = None;
            state.cache.finish()
        };
        self.publish(&gone);
        self.set_complete(true);
    }

    pub fn set_complete(&self, complete: bool) {
        let changed = self
            .status
            .send_if_modified(|status| std::mem::replace(&mut status.complete, complete) != complete);
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
            self.subscribers.notify(&[], Some(complete));
        }
    }

    pub fn close(&self) {
        self.tasks.lock().abandon();
        self.subscribers.close();
    }
}
