//! A cache of every VM below some folders, kept by one long poll.
//!
//! One ListView of ContainerViews (one per root folder), one ListView of tasks and one property
//! filter feed it. Nothing is polled: at rest the long poll is the only call. A cache that is not
//! complete (start, new session, restarted vCenter) answers `Unknown`, so that nobody acts on it.

mod availability;
mod build;
mod cache;
mod changes;
mod guest;
mod oversize;
mod pace;
mod shared;
mod stream;
mod task_list;
mod tasks;
mod types;
mod update;
mod vm;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use uuid::Uuid;

pub use changes::Changes;
pub use guest::{Customized, GuestNic, ToolsState};
pub use types::{Change, Location, Options, Presence, TaskResult};
pub use vm::{Configuration, Guest, PowerState, Vm};

use self::shared::Shared;
use crate::session::{await_task, bind_changes};
use crate::{Client, Error, Kind, MoRef, ObjectContent, Result};

/// The cache and its stream. Clones share it; it ends with the last clone or by [`Inventory::stop`].
///
/// One per client: the stream is the session's own property collector.
#[derive(Clone)]
pub struct Inventory {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    running: [AbortHandle; 2],
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

impl Handle {
    fn end(&self) {
        for task in &self.running {
            task.abort();
        }
        self.shared.close();
    }
}

impl Inventory {
    /// Starts the stream over all VMs below these folders. Needs a tokio runtime.
    pub fn start(client: Client, roots: Vec<MoRef>, options: Options) -> Self {
        let shared = Arc::new(Shared::new(client, roots, options));
        let stream = tokio::spawn(stream::run(shared.clone())).abort_handle();
        let task_list = tokio::spawn(task_list::run(shared.clone())).abort_handle();
        Self { handle: Arc::new(Handle { shared, running: [stream, task_list] }) }
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Adds a folder; returns once its VMs are in the cache.
    pub async fn add_root(&self, folder: &MoRef) -> Result<()> {
        build::add_root(self.shared(), folder).await
    }

    /// The folders, as asked for.
    pub fn roots(&self) -> Vec<MoRef> {
        self.shared().state.read().roots.clone()
    }

    /// Whether everything below the roots is in the cache.
    pub fn complete(&self) -> bool {
        self.shared().status.borrow().complete
    }

    /// Waits until the cache is complete.
    pub async fn wait_until_complete(&self) {
        let mut status = self.shared().status.subscribe();
        // The sender lives as long as we do.
        drop(status.wait_for(|status| status.complete).await);
    }

    /// Why the cache is not complete or not fresh, if anything is wrong.
    pub fn last_error(&self) -> Option<Error> {
        self.shared().state.read().trouble.clone()
    }

    /// Grows each time the cache is rebuilt.
    pub fn generation(&self) -> u64 {
        self.shared().status.borrow().generation
    }

    /// Binds the changes that this task makes from here on to the session that the cache was read in: what it shows, and
    /// what is read next, holds in that one only. In another they fail as not authenticated.
    ///
    /// For tasks that run in [`crate::with_bound_changes`].
    pub fn bind_changes(&self) {
        let shared = self.shared();
        let complete = shared.status.borrow().complete;
        bind_changes(shared.built.borrow().as_ref().filter(|_| complete).map(|built| built.live.epoch));
    }

    /// The VM with that reference.
    pub fn vm(&self, moref: &MoRef) -> Presence {
        self.shared().presence(|cache| cache.get(moref))
    }

    /// The VM with that instance UUID.
    pub fn by_uuid(&self, instance_uuid: Uuid) -> Presence {
        self.shared().presence(|cache| cache.by_uuid(instance_uuid))
    }

    /// The VM with that BIOS UUID.
    pub fn by_bios_uuid(&self, bios_uuid: Uuid) -> Presence {
        self.shared().presence(|cache| cache.by_bios_uuid(bios_uuid))
    }

    /// The VM of that name in that folder.
    pub fn by_name(&self, folder: &MoRef, name: &str) -> Presence {
        self.shared().presence(|cache| cache.by_name(folder, name))
    }

    /// The VMs whose configuration vCenter has never reported: each may be any VM that is looked for.
    pub fn unidentified(&self) -> Vec<Arc<Vm>> {
        self.shared().state.read().cache.unidentified().cloned().collect()
    }

    /// All VMs, in no order, those that are not available among them.
    pub fn all(&self) -> Vec<Arc<Vm>> {
        self.shared().state.read().cache.all().cloned().collect()
    }

    /// Where the VM with that instance UUID is: from the cache, else by one question to vCenter.
    ///
    /// One that vCenter does not find is gone only for as far as all others are identified: see [`Self::unidentified`]. vCenter
    /// finds none by UUID whose configuration it can't read: with `last`, the reference that the VM had when it was seen last, or
    /// with the one under which it left the cache, it is not gone while that one may be it.
    pub async fn locate(&self, instance_uuid: Uuid, last: Option<&MoRef>) -> Result<Location> {
        if let Some(location) = here(self.by_uuid(instance_uuid)) {
            return Ok(location);
        }
        if let Some(moref) = self.client().find_by_uuid(instance_uuid, true).await? {
            if let Some(location) = here(self.vm(&moref)) {
                return Ok(location);
            }
            return Ok(self.read_elsewhere(moref).await?.unwrap_or(Location::Gone));
        }
        let left = self.shared().state.read().cache.departed(instance_uuid).cloned();
        let Some(last) = last.cloned().or(left).filter(|last| here(self.vm(last)).is_none()) else {
            return Ok(Location::Gone);
        };
        Ok(match self.read_elsewhere(last).await? {
            Some(Location::Unavailable(vm)) if vm.instance_uuid.is_none_or(|uuid| uuid == instance_uuid) => {
                Location::Unavailable(vm)
            }
            // It can be read again since.
            Some(Location::Elsewhere(vm)) if vm.instance_uuid == Some(instance_uuid) => {
                Location::Elsewhere(vm)
            }
            // The id is another's.
            _ => Location::Gone,
        })
    }

    /// A VM that the stream does not show, read now; `None` where it is gone.
    async fn read_elsewhere(&self, moref: MoRef) -> Result<Option<Location>> {
        let client = self.client();
        match client.retrieve(std::slice::from_ref(&moref), vm::paths(&client.about().api_version)).await {
            Ok(found) => {
                let mut vm = Vm::new(moref);
                let read: Vec<_> = found.into_iter().flat_map(ObjectContent::into_properties).collect();
                vm.apply(&read, &self.shared().options.extra_config);
                let vm = Arc::new(vm);
                Ok(Some(if vm.is_available() { Location::Elsewhere(vm) } else { Location::Unavailable(vm) }))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until the VM is in the cache, as after its clone.
    pub async fn wait_for_vm(&self, moref: &MoRef, deadline: Duration) -> Result<Arc<Vm>> {
        self.wait_until(deadline, |inventory| inventory.vm(moref).present()).await.ok_or_else(|| {
            self.last_error().unwrap_or_else(|| Error::new("WaitForUpdatesEx", Kind::TimedOut)).on(moref)
        })
    }

    /// Waits until `find` finds what it looks for; `None` where it has not by the deadline.
    ///
    /// `find` is called at once and after every change of the cache, so it must be cheap, such as a lookup by
    /// reference. It says what counts: a VM in some state, one of some name, or that one has left.
    pub async fn wait_until<T>(&self, deadline: Duration, find: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut revision = self.shared().revision.subscribe();
        let found = async {
            loop {
                revision.borrow_and_update();
                if let Some(found) = find(self) {
                    return found;
                }
                if revision.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(deadline, found).await.ok()
    }

    /// Reads what happens from now on.
    pub fn subscribe(&self) -> Changes {
        self.shared().subscribe()
    }

    /// Waits for the end of a task; its failure is the error.
    ///
    /// `NotFound` of the task itself means that vCenter has forgotten it: look at the object.
    pub async fn wait_for_task(&self, task: &MoRef) -> Result<TaskResult> {
        let outcome = self.shared().wait_for_task(task);
        let _awaiting = await_task(task);
        outcome.await.unwrap_or_else(|_| Err(Error::new("Task", Kind::Canceled).on(task)))
    }

    /// The client that it reads through.
    pub fn client(&self) -> &Client {
        &self.shared().client
    }

    /// Ends the stream. The views go with the session.
    pub async fn stop(&self) {
        self.handle.end();
        if let Ok(collector) = self.client().service("propertyCollector") {
            // The connection may be gone with the session; then the wait is, too.
            drop(self.client().call(&collector, "CancelWaitForUpdates", None).await);
        }
    }
}

fn here(presence: Presence) -> Option<Location> {
    match presence {
        Presence::Present(vm) => Some(Location::Here(vm)),
        Presence::Unavailable(vm) => Some(Location::Unavailable(vm)),
        Presence::Absent | Presence::Unknown => None,
    }
}
