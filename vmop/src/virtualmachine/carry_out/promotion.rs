//! Promotions that were begun: vCenter is asked, and followed beside all passes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use vsphere::{Disk, Error, MoRef};

use crate::enqueue::Enqueue;
use crate::vcenter::VCenter;

/// A promotion that failed for a reason that passes is begun anew after this.
const RETRY: Duration = Duration::from_mins(5);

/// What has become of promotions that this process began.
pub struct Promotions {
    known: Mutex<HashMap<ObjectRef<VirtualMachine>, Begun>>,
    waker: Enqueue<VirtualMachine>,
}

/// A promotion that was begun for one spec of an object.
struct Begun {
    machine: MoRef,
    generation: Option<i64>,
    progress: Progress,
}

/// How far a promotion that was begun has come.
#[derive(Clone)]
pub enum Progress {
    /// vCenter is at it.
    Running,
    /// vCenter says that it is done.
    Ended,
    /// It is tried again in a while; why it failed.
    Passing(String),
    /// vCenter can't do it.
    Failed(String),
}

impl Promotions {
    /// Nothing was begun; `waker` wakes the objects of promotions that ended.
    pub fn new(waker: Enqueue<VirtualMachine>) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), waker })
    }

    /// The object is gone.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.known.lock().remove(vm);
    }

    /// What was begun for the machine; a failure counts until the object is changed.
    pub fn of(&self, vm: &VirtualMachine, machine: &MoRef) -> Option<Progress> {
        let known = self.known.lock();
        let begun = known.get(&ObjectRef::from_obj(vm)).filter(|begun| begun.machine == *machine)?;
        let stale = begun.generation != vm.metadata.generation
            && matches!(begun.progress, Progress::Ended | Progress::Failed(_));
        (!stale).then(|| begun.progress.clone())
    }

    /// vCenter promotes the disks; the object is woken when that has ended.
    pub fn begin(
        self: &Arc<Self>,
        vm: &VirtualMachine,
        machine: &MoRef,
        disks: &[Disk],
        vcenter: &Arc<VCenter>,
    ) {
        let object = ObjectRef::from_obj(vm);
        let begun = Begun {
            machine: machine.clone(),
            generation: vm.metadata.generation,
            progress: Progress::Running,
        };
        self.known.lock().insert(object.clone(), begun);
        tracing::info!(%machine, disks = disks.len(), "promoting linked disks");
        let (promotions, vcenter) = (Arc::clone(self), Arc::clone(vcenter));
        let (machine, disks) = (machine.clone(), disks.to_vec());
        tokio::spawn(async move {
            let gone = vcenter.gone.clone();
            if gone
                .run_until_cancelled(promotions.followed(&object, &machine, &disks, &vcenter))
                .await
                .is_none()
            {
                promotions.forget(&object);
            }
        });
    }

    /// The promotion to its end.
    async fn followed(
        &self,
        object: &ObjectRef<VirtualMachine>,
        machine: &MoRef,
        disks: &[Disk],
        vcenter: &VCenter,
    ) {
        let promoted = promoted(machine, disks, vcenter).await;
        vcenter.forget_devices(machine);
        let Err(error) = promoted else { return self.tell(object, machine, Progress::Ended) };
        tracing::warn!(%machine, %error, "linked disks could not be promoted");
        let why = format!("{error}. {}", error.advice());
        if !error.retryable() && !error.outcome_unknown() {
            return self.tell(object, machine, Progress::Failed(why));
        }
        self.tell(object, machine, Progress::Passing(why));
        tokio::time::sleep(RETRY).await;
        self.forget(object);
        self.waker.enqueue(object.clone());
    }

    /// The object learns of it, unless it is another machine's by now.
    fn tell(&self, object: &ObjectRef<VirtualMachine>, machine: &MoRef, progress: Progress) {
        if let Some(begun) = self.known.lock().get_mut(object).filter(|begun| begun.machine == *machine) {
            begun.progress = progress;
        }
        self.waker.enqueue(object.clone());
    }
}

/// vCenter has promoted the disks; one that is at it already is not asked again.
async fn promoted(machine: &MoRef, disks: &[Disk], vcenter: &VCenter) -> Result<(), Error> {
    let task = match underway(machine, vcenter).await? {
        Some(task) => task,
        None => vcenter.client.promote_disks(machine, disks).await?,
    };
    match vcenter.inventory.wait_for_task(&task).await {
        // The task is forgotten, so it is over; the disks tell what came of it.
        Err(error) if error.is_not_found() && error.method() == "Task" => Ok(()),
        ended => ended.map(drop),
    }
}

/// The promotion of the machine's disks that was begun before, by whomever.
pub async fn underway(machine: &MoRef, vcenter: &VCenter) -> Result<Option<MoRef>, Error> {
    let paths = ["info.state", "info.descriptionId"];
    let tasks = vcenter.client.retrieve_members(machine, "recentTask", "Task", &paths).await?;
    let runs = |task: &&vsphere::ObjectContent| {
        let what = task.get("info.descriptionId").as_str().unwrap_or_default().to_ascii_lowercase();
        let running = matches!(task.get("info.state").as_str(), Some("running" | "queued"));
        running && what.contains("promotedisks")
    };
    Ok(tasks.iter().find(runs).map(|task| task.obj.clone()))
}
