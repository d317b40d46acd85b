//! The promotions of linked disks that this process began.

use std::collections::HashMap;
use std::sync::Arc;

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use vsphere::MoRef;

use crate::enqueue::Enqueue;

/// What has become of promotions that this process began.
pub struct Promotions {
    begun: Mutex<HashMap<ObjectRef<VirtualMachine>, Promoting>>,
    enqueue: Enqueue<VirtualMachine>,
}

/// A promotion that was begun for one spec of an object.
struct Promoting {
    vsphere_vm: MoRef,
    generation: Option<i64>,
    progress: PromotionProgress,
}

/// How far a promotion that was begun has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionProgress {
    /// vCenter is at it.
    Running,
    /// vCenter says that it is done.
    Ended,
    /// It is tried again in a while; why it failed.
    Retrying(String),
    /// vCenter can't do it.
    Failed(String),
}

impl Promotions {
    /// Nothing was begun; `enqueue` takes the objects of promotions that ended.
    pub fn new(enqueue: Enqueue<VirtualMachine>) -> Arc<Self> {
        Arc::new(Self { begun: Mutex::default(), enqueue })
    }

    /// Keeps that a promotion for this object was begun.
    pub fn begin(&self, vm: &VirtualMachine, vsphere_vm: &MoRef) {
        let promoting = Promoting {
            vsphere_vm: vsphere_vm.clone(),
            generation: vm.metadata.generation,
            progress: PromotionProgress::Running,
        };
        self.begun.lock().insert(ObjectRef::from_obj(vm), promoting);
    }

    /// Keeps how far the promotion is, unless the object has another VM by now, and has the object reconciled.
    pub fn record(&self, vm: &ObjectRef<VirtualMachine>, vsphere_vm: &MoRef, progress: PromotionProgress) {
        if let Some(promoting) = self.begun.lock().get_mut(vm).filter(|begun| begun.vsphere_vm == *vsphere_vm)
        {
            promoting.progress = progress;
        }
        self.enqueue.enqueue(vm.clone());
    }

    /// Has a promotion that failed begun anew.
    pub fn retry(&self, vm: &ObjectRef<VirtualMachine>) {
        self.forget(vm);
        self.enqueue.enqueue(vm.clone());
    }

    /// The object is gone, or its promotion is followed no more.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.begun.lock().remove(vm);
    }

    /// How far the promotion is that was begun for the VM; a failure counts until the object is changed.
    pub fn progress(&self, vm: &VirtualMachine, vsphere_vm: &MoRef) -> Option<PromotionProgress> {
        let begun = self.begun.lock();
        let promoting =
            begun.get(&ObjectRef::from_obj(vm)).filter(|begun| begun.vsphere_vm == *vsphere_vm)?;
        let stale = promoting.generation != vm.metadata.generation
            && matches!(promoting.progress, PromotionProgress::Ended | PromotionProgress::Failed(_));
        (!stale).then(|| promoting.progress.clone())
    }
}
