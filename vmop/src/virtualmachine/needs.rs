//! The prerequisites for creating a VM, each checked separately.
//!
//! Every reconcile checks all of them, so that a user sees all missing prerequisites at once instead of one after the other.

use std::sync::Arc;

use super::bootstrap::data::Bootstrap;
use super::nic::adapter::Nic;
use super::nic::request::NicRequest;
use super::size::class::Size;
use super::storage::class::Storage;
use crate::device_check::DeviceKinds;
use crate::templates::{GoldenTemplate, TemplateKey};
use crate::unmet::{Need, Unmet};
use crate::vcenter::Placement;

/// The facts about a VM to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    pub needs: Needs,
    /// Requests to the network provider.
    pub nic_requests: Vec<NicRequest>,
    /// The golden template to request, if its key is known.
    pub template_request: Option<TemplateKey>,
    /// True if the VirtualMachineImage doesn't exist.
    pub image_missing: bool,
    /// True if disks are copied by default instead of linked.
    pub direct: bool,
    /// The device kinds for which an earlier clone proved that clones get all devices that they request.
    pub proven_devices: DeviceKinds,
}

/// The prerequisites for creating a VM.
#[derive(Clone, Debug)]
pub struct Needs {
    /// CPUs, memory and reservations.
    pub class: Need<Size>,
    /// The template to clone.
    pub image: Need<Arc<GoldenTemplate>>,
    /// The datastore and the storage policy of the disks.
    pub storage: Need<Storage>,
    /// The NICs with their networks.
    pub nics: Need<Vec<Nic>>,
    pub bootstrap: Need<Bootstrap>,
    /// The folder and the resource pool.
    pub placement: Need<Placement>,
}

impl Needs {
    /// Returns the unmet needs. Needs that require a change precede needs that only require time.
    pub fn unmet(&self) -> impl Iterator<Item = &Unmet> {
        let Self { class, image, storage, nics, bootstrap, placement } = self;
        let all = [
            class.as_ref().err(),
            image.as_ref().err(),
            storage.as_ref().err(),
            nics.as_ref().err(),
            bootstrap.as_ref().err(),
            placement.as_ref().err(),
        ];
        let wrong = all.into_iter().flatten().filter(|unmet| !unmet.underway);
        wrong.chain(all.into_iter().flatten().filter(|unmet| unmet.underway))
    }

    /// Returns the unmet need to report first.
    pub fn first_unmet(&self) -> Option<&Unmet> {
        self.unmet().next()
    }
}
