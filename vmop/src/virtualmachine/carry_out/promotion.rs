//! Promotes linked disks in vCenter, in background tasks that don't block reconciles.

use std::sync::Arc;
use std::time::Duration;

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use vsphere::{Error, MoRef, VirtualDisk};

use crate::vcenter::VCenter;
use crate::virtualmachine::storage::promotions::{PromotionProgress, Promotions};

/// The retry delay for a promotion whose failure is possibly temporary.
const RETRY: Duration = Duration::from_mins(5);

/// Begins the promotion in a background task, which enqueues the VirtualMachine after the promotion has ended.
pub fn begin_promotion(
    promotions: &Arc<Promotions>,
    vm: &VirtualMachine,
    vsphere_vm: &MoRef,
    disks: &[VirtualDisk],
    vcenter: &Arc<VCenter>,
) {
    let object = ObjectRef::from_obj(vm);
    promotions.begin(vm, vsphere_vm);
    tracing::info!(vm = %vsphere_vm, disks = disks.len(), "promoting linked disks");
    let (promotions, vcenter) = (Arc::clone(promotions), Arc::clone(vcenter));
    let (vsphere_vm, disks) = (vsphere_vm.clone(), disks.to_vec());
    tokio::spawn(async move {
        let gone = vcenter.gone.clone();
        let promoted = follow(&promotions, &object, &vsphere_vm, &disks, &vcenter);
        if gone.run_until_cancelled(promoted).await.is_none() {
            promotions.forget(&object);
        }
    });
}

async fn follow(
    promotions: &Promotions,
    object: &ObjectRef<VirtualMachine>,
    vsphere_vm: &MoRef,
    disks: &[VirtualDisk],
    vcenter: &VCenter,
) {
    let promoted = promote(vsphere_vm, disks, vcenter).await;
    vcenter.forget_devices(vsphere_vm);
    let Err(error) = promoted else {
        return promotions.record(object, vsphere_vm, PromotionProgress::Ended);
    };
    tracing::warn!(vm = %vsphere_vm, %error, "linked disks could not be promoted");
    let why = format!("{error}. {}", error.advice());
    if !error.retryable() && !error.outcome_unknown() {
        return promotions.record(object, vsphere_vm, PromotionProgress::Failed(why));
    }
    promotions.record(object, vsphere_vm, PromotionProgress::Retrying(why));
    tokio::time::sleep(RETRY).await;
    promotions.retry(object);
}

/// Promotes the disks, or waits for a promotion that is already running.
async fn promote(vsphere_vm: &MoRef, disks: &[VirtualDisk], vcenter: &VCenter) -> Result<(), Error> {
    let task = match running_promotion(vsphere_vm, vcenter).await? {
        Some(task) => task,
        None => vcenter.client.promote_disks(vsphere_vm, disks).await?,
    };
    match vcenter.inventory.wait_for_task(&task).await {
        // vCenter has forgotten the task, so it has ended. The disks show the result.
        Err(error) if error.is_not_found() && error.method() == "Task" => Ok(()),
        ended => ended.map(drop),
    }
}

/// Returns a running promotion task for the VM's disks, even if another client started it.
pub async fn running_promotion(vsphere_vm: &MoRef, vcenter: &VCenter) -> Result<Option<MoRef>, Error> {
    let paths = ["info.state", "info.descriptionId"];
    let tasks = vcenter.client.retrieve_members(vsphere_vm, "recentTask", "Task", &paths).await?;
    let runs = |task: &&vsphere::ObjectContent| {
        let what = task.get("info.descriptionId").as_str().unwrap_or_default().to_ascii_lowercase();
        let running = matches!(task.get("info.state").as_str(), Some("running" | "queued"));
        running && what.contains("promotedisks")
    };
    Ok(tasks.iter().find(runs).map(|task| task.obj.clone()))
}
