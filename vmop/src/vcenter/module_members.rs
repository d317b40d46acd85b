//! Cluster module membership for many VMs with few calls.
//!
//! A VM must be a member before it is powered on, so each VM waits for a call. VMs that arrive during a call, or
//! shortly after one, share the next call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::Instant;
use vsphere::{Client, Kind, MoRef, Result};

/// The client's name for the call that adds members.
pub const MEMBERSHIP: &str = "module add";
/// The minimum interval between two calls for one module, so that VMs created one after another share calls.
const PACE: Duration = Duration::from_millis(200);

/// The known members of all cluster modules.
#[derive(Clone, Default)]
pub struct Memberships {
    modules: Arc<Mutex<HashMap<String, Arc<Module>>>>,
}

#[derive(Default)]
struct Module {
    known: OnceCell<()>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    members: HashSet<MoRef>,
    waiting: Vec<(MoRef, oneshot::Sender<Result<()>>)>,
    busy: bool,
    last: Option<Instant>,
}

impl Module {
    async fn read(&self, client: &Client, id: &str) -> Result<()> {
        let members = client.list_cluster_module_members(id).await?;
        self.queue.lock().members.extend(members);
        Ok(())
    }

    fn holds(&self, vm: &MoRef) -> bool {
        self.queue.lock().members.contains(vm)
    }
}

impl Memberships {
    /// Adds the VM to the module. Doesn't call vCenter if the VM is already known to be a member. Fails with `NotFound` if the
    /// module doesn't exist.
    pub async fn join(&self, client: &Client, id: &str, vm: &MoRef) -> Result<()> {
        let module = self.module(id);
        let answer = {
            let mut queue = module.queue.lock();
            if queue.members.contains(vm) {
                return Ok(());
            }
            let (sender, answer) = oneshot::channel();
            queue.waiting.push((vm.clone(), sender));
            if !queue.busy {
                queue.busy = true;
                // A separate task, because a canceled waiter must not cancel the call for others.
                tokio::spawn(serve(self.clone(), client.clone(), id.to_owned(), Arc::clone(&module)));
            }
            answer
        };
        answer.await.unwrap_or_else(|_dropped| Err(vsphere::Error::new(MEMBERSHIP, Kind::Canceled).on(id)))
    }

    /// Returns true if the VM is a member. Reads the module on first use, and again if the VM isn't a known member.
    pub async fn holds(&self, client: &Client, id: &str, vm: &MoRef) -> Result<bool> {
        let module = self.module(id);
        let first = !module.known.initialized();
        module.known.get_or_try_init(|| module.read(client, id)).await?;
        if first || module.holds(vm) {
            return Ok(module.holds(vm));
        }
        // Another management cluster's operator may have added the VM before its VirtualMachine was moved to this cluster.
        module.read(client, id).await?;
        Ok(module.holds(vm))
    }

    /// Discards the known members of a module that was deleted or changed.
    pub fn forget(&self, id: &str) {
        self.modules.lock().remove(id);
    }

    /// Discards all known members, because vCenter may have been restored from a backup.
    pub fn forget_all(&self) {
        self.modules.lock().clear();
    }

    fn module(&self, id: &str) -> Arc<Module> {
        Arc::clone(self.modules.lock().entry(id.to_owned()).or_default())
    }
}

/// Adds waiting VMs in batches until the queue is empty.
async fn serve(all: Memberships, client: Client, id: String, module: Arc<Module>) {
    loop {
        let last = module.queue.lock().last;
        if let Some(last) = last {
            tokio::time::sleep_until(last + PACE).await;
        }
        let batch = std::mem::take(&mut module.queue.lock().waiting);
        let vms: Vec<_> = batch.iter().map(|(vm, _)| vm.clone()).collect();
        let outcome = add_members(&client, &id, &vms).await;
        if outcome.as_ref().is_err_and(vsphere::Error::is_not_found) {
            all.forget(&id);
        }
        let mut queue = module.queue.lock();
        queue.last = Some(Instant::now());
        for (vm, sender) in batch {
            let answer = match &outcome {
                Err(error) => Err(error.clone()),
                Ok(refused) if refused.contains(&vm) => Err(refusal(&id, &vm)),
                Ok(_) => {
                    queue.members.insert(vm);
                    Ok(())
                }
            };
            // The waiter can be gone. The VM is a member regardless.
            let _ = sender.send(answer);
        }
        if queue.waiting.is_empty() {
            queue.busy = false;
            return;
        }
    }
}

/// Adds the VMs and returns those that aren't members afterwards.
async fn add_members(client: &Client, id: &str, vms: &[MoRef]) -> Result<HashSet<MoRef>> {
    if client.add_to_cluster_module(id, vms).await? {
        return Ok(HashSet::new());
    }
    // The response doesn't say which VM caused the failure. That VM was already a member, or can't be one.
    let mut left = missing_members(client, id, vms).await?;
    if !left.is_empty() && left.len() < vms.len() && !client.add_to_cluster_module(id, &left).await? {
        left = missing_members(client, id, &left).await?;
    }
    Ok(left.into_iter().collect())
}

async fn missing_members(client: &Client, id: &str, vms: &[MoRef]) -> Result<Vec<MoRef>> {
    let members: HashSet<_> = client.list_cluster_module_members(id).await?.into_iter().collect();
    Ok(vms.iter().filter(|vm| !members.contains(vm)).cloned().collect())
}

fn refusal(id: &str, vm: &MoRef) -> vsphere::Error {
    let what = format!("the VM in cluster module {id}; it must be in the module's cluster");
    vsphere::Error::new(MEMBERSHIP, Kind::Unsupported { what }).on(vm)
}
