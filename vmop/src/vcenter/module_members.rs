//! Membership in cluster modules: many VMs, few calls.
//!
//! A VM has to be a member before it is powered on, so every one waits for a call. Those that
//! come while a call is under way, or shortly after one, share the next.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::Instant;
use vsphere::{Client, Kind, MoRef, Result};

/// How the client calls the call that adds members.
pub const MEMBERSHIP: &str = "module add";
/// Two calls for one module are at least this far apart, so that VMs made one after another share calls.
const PACE: Duration = Duration::from_millis(200);

/// The members of all cluster modules, as far as they were asked for.
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
        let members = client.cluster_module_members(id).await?;
        self.queue.lock().members.extend(members);
        Ok(())
    }

    fn holds(&self, vm: &MoRef) -> bool {
        self.queue.lock().members.contains(vm)
    }
}

impl Memberships {
    /// Makes the VM a member of the module; one that was before costs no call. `NotFound` where the module is gone.
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
                // Of nobody who waits: one that gives up must not take the others' call with it.
                tokio::spawn(serve(self.clone(), client.clone(), id.to_owned(), Arc::clone(&module)));
            }
            answer
        };
        answer.await.unwrap_or_else(|_dropped| Err(vsphere::Error::new(MEMBERSHIP, Kind::Canceled).on(id)))
    }

    /// Whether the VM is a member; the first question about a module reads it, and so does one about a VM that is not known.
    pub async fn holds(&self, client: &Client, id: &str, vm: &MoRef) -> Result<bool> {
        let module = self.module(id);
        let first = !module.known.initialized();
        module.known.get_or_try_init(|| module.read(client, id)).await?;
        if first || module.holds(vm) {
            return Ok(module.holds(vm));
        }
        // The operator of another management cluster may have added it before its object came here.
        module.read(client, id).await?;
        Ok(module.holds(vm))
    }

    /// The module is gone, or somebody changed it: it is read anew.
    pub fn forget(&self, id: &str) {
        self.modules.lock().remove(id);
    }

    /// vCenter may have been restored from a backup: all modules are read anew.
    pub fn forget_all(&self) {
        self.modules.lock().clear();
    }

    fn module(&self, id: &str) -> Arc<Module> {
        Arc::clone(self.modules.lock().entry(id.to_owned()).or_default())
    }
}

/// Calls as long as somebody waits.
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
            // Nobody waits any more: the VM is a member all the same.
            let _ = sender.send(answer);
        }
        if queue.waiting.is_empty() {
            queue.busy = false;
            return;
        }
    }
}

/// Adds VMs; the answer is those that are no members even so.
async fn add_members(client: &Client, id: &str, vms: &[MoRef]) -> Result<HashSet<MoRef>> {
    if client.add_to_cluster_module(id, vms).await? {
        return Ok(HashSet::new());
    }
    // One of them was a member before, or can't be one: vCenter says no more than that.
    let mut left = missing_members(client, id, vms).await?;
    if !left.is_empty() && left.len() < vms.len() && !client.add_to_cluster_module(id, &left).await? {
        left = missing_members(client, id, &left).await?;
    }
    Ok(left.into_iter().collect())
}

async fn missing_members(client: &Client, id: &str, vms: &[MoRef]) -> Result<Vec<MoRef>> {
    let members: HashSet<_> = client.cluster_module_members(id).await?.into_iter().collect();
    Ok(vms.iter().filter(|vm| !members.contains(vm)).cloned().collect())
}

fn refusal(id: &str, vm: &MoRef) -> vsphere::Error {
    let what = format!("the VM in cluster module {id}; it must be in the module's cluster");
    vsphere::Error::new(MEMBERSHIP, Kind::Unsupported { what }).on(vm)
}
