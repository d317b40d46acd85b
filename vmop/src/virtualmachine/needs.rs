//! What a VM needs before it can be created, each need by itself.
//!
//! All of them are looked at in every reconcile, so that a user sees everything that is missing at once and
//! not one thing per repair.

use std::sync::Arc;

use super::bootstrap::data::Bootstrap;
use super::nic::adapter::Nic;
use super::nic::request::NicRequest;
use super::size::class::Size;
use super::storage::class::Storage;
use crate::device_check::DeviceKinds;
use crate::templates::{Template, TemplateKey};
use crate::unmet::{Need, Unmet};
use crate::vcenter::Placement;

/// What is known of a VM that is to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// What it needs.
    pub needs: Needs,
    /// What has to be requested of the network provider.
    pub nic_requests: Vec<NicRequest>,
    /// The golden template to request, where it is known which.
    pub template_request: Option<TemplateKey>,
    /// Whether there is no VirtualMachineImage of the name.
    pub image_missing: bool,
    /// Whether disks are copied by default, rather than linked.
    pub direct: bool,
    /// The kinds of devices that clones are known to get from their settings.
    pub proven_devices: DeviceKinds,
}

/// Everything a VM needs before it is created.
#[derive(Clone, Debug)]
pub struct Needs {
    /// CPUs, memory and reservations.
    pub class: Need<Size>,
    /// The template to clone.
    pub image: Need<Arc<Template>>,
    /// What the disks lie on.
    pub storage: Need<Storage>,
    /// Which network each NIC is connected to.
    pub nics: Need<Vec<Nic>>,
    /// What the guest gets.
    pub bootstrap: Need<Bootstrap>,
    /// Folder and pool.
    pub placement: Need<Placement>,
}

impl Needs {
    /// What is unmet: what is wrong before what only takes time.
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

    /// What to report first of all that is unmet.
    pub fn first_unmet(&self) -> Option<&Unmet> {
        self.unmet().next()
    }
}
