//! What a machine needs before it can be made, each judged by itself.
//!
//! All of them are judged in every pass, so that a user sees everything that is missing at once and
//! not one thing per repair.

use std::sync::Arc;

use crate::templates::Template;
use crate::unmet::{Need, Unmet};
use crate::vcenter::Placement;
use crate::virtualmachine::bootstrap::Bootstrap;

use crate::virtualmachine::nic::nic::Card;
use crate::virtualmachine::size::class::Size;
use crate::virtualmachine::storage::class::Storage;

/// Everything a machine needs before it is made.
#[derive(Clone, Debug)]
pub struct Needs {
    /// CPUs, memory and reservations.
    pub class: Need<Size>,
    /// The template to clone.
    pub image: Need<Arc<Template>>,
    /// What the disks lie on.
    pub storage: Need<Storage>,
    /// What each network card is plugged into.
    pub network: Need<Vec<Card>>,
    /// What the guest is told.
    pub bootstrap: Need<Bootstrap>,
    /// Folder and pool.
    pub place: Need<Placement>,
}

impl Needs {
    /// What is unmet: what is wrong before what only takes time.
    pub fn unmet(&self) -> impl Iterator<Item = &Unmet> {
        let Self { class, image, storage, network, bootstrap, place } = self;
        let all = [
            class.as_ref().err(),
            image.as_ref().err(),
            storage.as_ref().err(),
            network.as_ref().err(),
            bootstrap.as_ref().err(),
            place.as_ref().err(),
        ];
        let wrong = all.into_iter().flatten().filter(|unmet| !unmet.underway);
        wrong.chain(all.into_iter().flatten().filter(|unmet| unmet.underway))
    }

    /// What to tell first of all that is unmet.
    pub fn first_unmet(&self) -> Option<&Unmet> {
        self.unmet().next()
    }
}
