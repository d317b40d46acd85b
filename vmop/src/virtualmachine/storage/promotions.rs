//! Tracks the promotions of linked disks that this process began.

use std::collections::HashMap;
use std::sync::Arc;

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use vsphere::MoRef;

use crate::enqueue::Enqueue;

/// The promotions that this process began, with their progress.
pub struct Promotions {
    begun: Mutex<HashMap<ObjectRef<VirtualMachine>, Promoting>>,
    enqueue: Enqueue<VirtualMachine>,
}

/// A promotion, and the generation of the VirtualMachine for which it was begun.
struct Promoting {
    vsphere_vm: MoRef,
    generation: Option<i64>,
    progress: PromotionProgress,
}

/// vCenter's progress in promoting a VM's linked-clone disks to full disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionProgress {
    /// vCenter is promoting the disks.
    Running,
    /// vCenter has reported success.
    Ended,
    /// The promotion failed with this message and is retried after a delay.
    Retrying(String),
    /// The promotion failed with this message, and isn't retried until the VirtualMachine changes.
    Failed(String),
}

impl Promotions {
    /// Creates an empty registry. `enqueue` receives the VirtualMachines whose promotion has progressed.
    pub fn new(enqueue: Enqueue<VirtualMachine>) -> Arc<Self> {
        Arc::new(Self { begun: Mutex::default(), enqueue })
    }

    /// Records that a promotion for this VirtualMachine was begun.
    pub fn begin(&self, vm: &VirtualMachine, vsphere_vm: &MoRef) {
        let promoting = Promoting {
            vsphere_vm: vsphere_vm.clone(),
            generation: vm.metadata.generation,
            progress: PromotionProgress::Running,
        };
        self.begun.lock().insert(ObjectRef::from_obj(vm), promoting);
    }

    /// Records the progress unless the VirtualMachine has a different VM by now, and enqueues the VirtualMachine.
    pub fn record(&self, vm: &ObjectRef<VirtualMachine>, vsphere_vm: &MoRef, progress: PromotionProgress) {
        if let Some(promoting) = self.begun.lock().get_mut(vm).filter(|begun| begun.vsphere_vm == *vsphere_vm)
        {
            promoting.progress = progress;
        }
        self.enqueue.enqueue(vm.clone());
    }

    /// Forgets a failed promotion and enqueues the VirtualMachine, so that the promotion is begun again.
    pub fn retry(&self, vm: &ObjectRef<VirtualMachine>) {
        self.forget(vm);
        self.enqueue.enqueue(vm.clone());
    }

    /// Stops tracking the promotion.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.begun.lock().remove(vm);
    }

    /// Returns the progress of the VM's promotion. An end or a failure counts until the VirtualMachine changes.
    pub fn progress(&self, vm: &VirtualMachine, vsphere_vm: &MoRef) -> Option<PromotionProgress> {
        let begun = self.begun.lock();
        let promoting =
            begun.get(&ObjectRef::from_obj(vm)).filter(|begun| begun.vsphere_vm == *vsphere_vm)?;
        let stale = promoting.generation != vm.metadata.generation
            && matches!(promoting.progress, PromotionProgress::Ended | PromotionProgress::Failed(_));
        (!stale).then(|| promoting.progress.clone())
    }
}
