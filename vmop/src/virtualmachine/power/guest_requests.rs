//! Tracks the guests that this process has asked to shut down or to stand by.

use std::collections::HashMap;

use api::vmop::VirtualMachine;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use vsphere::inventory::PowerState;

/// The guests that this process has asked to shut down or to stand by.
///
/// After a restart of this program, a guest is asked again, which is harmless.
#[derive(Default)]
pub struct GuestRequests(Mutex<HashMap<ObjectRef<VirtualMachine>, PowerState>>);

impl GuestRequests {
    /// Forgets the request to the guest of this VM.
    pub fn forget(&self, vm: &ObjectRef<VirtualMachine>) {
        self.0.lock().remove(vm);
    }

    /// Records the request. Returns false if the same request was already recorded.
    pub fn insert(&self, vm: &ObjectRef<VirtualMachine>, state: PowerState) -> bool {
        self.0.lock().insert(vm.clone(), state) != Some(state)
    }
}
