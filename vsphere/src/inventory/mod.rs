//! A cache of all VMs below the root folders, kept current by one long poll.
//!
//! A ListView of ContainerViews (one per root folder), a ListView of tasks and a property filter define what the long
//! poll returns. When vCenter is idle, the long poll is the only call. While the cache is incomplete (at startup, in a
//! new session, after a vCenter restart), lookups return `Unknown`, so that callers don't act on partial data.

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
pub use types::{InventoryChange, Location, Options, Presence, TaskResult};
pub use vm::{Configuration, GuestState, PowerState, Vm};

use self::shared::Shared;
use crate::session::{await_task, bind_changes};
use crate::{Client, Error, Kind, MoRef, ObjectContent, Result};

/// A handle to the cache and its stream. Clones share both. The stream ends with the last clone or at [`Inventory::stop`].
///
/// Create only one per client, because the stream uses the session's default property collector.
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
    /// Starts to stream all VMs below `roots`. Requires a tokio runtime.
    pub fn start(client: Client, roots: Vec<MoRef>, options: Options) -> Self {
        let shared = Arc::new(Shared::new(client, roots, options));
        let stream = tokio::spawn(stream::run(shared.clone())).abort_handle();
        let task_list = tokio::spawn(task_list::run(shared.clone())).abort_handle();
        Self { handle: Arc::new(Handle { shared, running: [stream, task_list] }) }
    }

    fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Adds a root folder and waits until its VMs are in the cache.
    pub async fn add_root(&self, folder: &MoRef) -> Result<()> {
        build::add_root(self.shared(), folder).await
    }

    /// Returns the root folders as requested, including folders that don't exist any more.
    pub fn roots(&self) -> Vec<MoRef> {
        self.shared().state.read().roots.clone()
    }

    /// Returns true if all VMs below the roots are in the cache.
    pub fn complete(&self) -> bool {
        self.shared().status.borrow().complete
    }

    /// Waits until the cache is complete.
    pub async fn wait_until_complete(&self) {
        let mut status = self.shared().status.subscribe();
        // `self` keeps the sender alive, so this can't fail.
        drop(status.wait_for(|status| status.complete).await);
    }

    /// Returns the error that keeps the cache incomplete or stale, if any.
    pub fn last_error(&self) -> Option<Error> {
        self.shared().state.read().trouble.clone()
    }

    /// Returns a counter that increases each time the cache is rebuilt.
    pub fn generation(&self) -> u64 {
        self.shared().status.borrow().generation
    }

    /// Binds further changes by the current Tokio task to the session in which the cache was read, because references may refer
    /// to other objects after a vCenter restore. In another session, these changes fail with `NotAuthenticated`. If the cache is
    /// incomplete now, they always fail.
    ///
    /// Has an effect only inside [`crate::with_bound_changes`].
    pub fn bind_changes(&self) {
        let shared = self.shared();
        let complete = shared.status.borrow().complete;
        bind_changes(shared.built.borrow().as_ref().filter(|_| complete).map(|built| built.live.epoch));
    }

    /// Looks up a VM by reference.
    pub fn vm(&self, moref: &MoRef) -> Presence {
        self.shared().presence(|cache| cache.get(moref))
    }

    /// Looks up a VM by instance UUID.
    pub fn by_uuid(&self, instance_uuid: Uuid) -> Presence {
        self.shared().presence(|cache| cache.by_uuid(instance_uuid))
    }

    /// Looks up a VM by BIOS UUID.
    pub fn by_bios_uuid(&self, bios_uuid: Uuid) -> Presence {
        self.shared().presence(|cache| cache.by_bios_uuid(bios_uuid))
    }

    /// Looks up a VM by folder and name.
    pub fn by_name(&self, folder: &MoRef, name: &str) -> Presence {
        self.shared().presence(|cache| cache.by_name(folder, name))
    }

    /// Returns the VMs whose configuration vCenter has never reported. Each may be the VM that a caller looks for.
    pub fn unidentified(&self) -> Vec<Arc<Vm>> {
        self.shared().state.read().cache.unidentified().cloned().collect()
    }

    /// Returns all VMs in arbitrary order, including unavailable ones.
    pub fn all(&self) -> Vec<Arc<Vm>> {
        self.shared().state.read().cache.all().cloned().collect()
    }

    /// Locates a VM by instance UUID: first in the cache, then in vCenter.
    ///
    /// vCenter can't find a VM by UUID while it can't read the VM's configuration. Therefore, the VM is also looked up
    /// by its last known reference: `last`, or otherwise the reference under which the VM left the cache. If an
    /// unavailable VM with this reference may be the VM, the result is [`Location::Unavailable`].
    ///
    /// [`Location::Gone`] is certain only if all VMs in the cache are identified: see [`Self::unidentified`].
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
            // The configuration became readable after the lookup by UUID.
            Some(Location::Elsewhere(vm)) if vm.instance_uuid == Some(instance_uuid) => {
                Location::Elsewhere(vm)
            }
            // The reference doesn't exist or belongs to another VM.
            _ => Location::Gone,
        })
    }

    /// Reads a VM that the stream doesn't show. Returns `None` if it doesn't exist.
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

    /// Waits until the VM is in the cache and available, for example after a clone. `deadline` is the maximum time to
    /// wait.
    pub async fn wait_for_vm(&self, moref: &MoRef, deadline: Duration) -> Result<Arc<Vm>> {
        self.wait_until(deadline, |inventory| inventory.vm(moref).present()).await.ok_or_else(|| {
            self.last_error().unwrap_or_else(|| Error::new("WaitForUpdatesEx", Kind::TimedOut)).on(moref)
        })
    }

    /// Waits until `find` returns a value. Returns `None` if that takes longer than `deadline`.
    ///
    /// `find` runs immediately and after every cache change, so it must be cheap, such as a lookup by reference. It can
    /// look for a VM in a certain state, for a name, or for a VM's absence.
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

    /// Subscribes to all changes from now on.
    pub fn subscribe(&self) -> Changes {
        self.shared().subscribe()
    }

    /// Waits until a task ends. If the task fails, its fault is the error.
    ///
    /// `NotFound` for the task itself means that vCenter doesn't remember the task any more: check the object that the
    /// task was to change.
    pub async fn wait_for_task(&self, task: &MoRef) -> Result<TaskResult> {
        let outcome = self.shared().wait_for_task(task);
        let _awaiting = await_task(task);
        outcome.await.unwrap_or_else(|_| Err(Error::new("Task", Kind::Canceled).on(task)))
    }

    /// Returns the client that the inventory reads through.
    pub fn client(&self) -> &Client {
        &self.shared().client
    }

    /// Stops the stream. The views end with the session.
    pub async fn stop(&self) {
        self.handle.end();
        if let Ok(collector) = self.client().service("propertyCollector") {
            // Ignore errors: if the session is gone, the long poll has ended, too.
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
