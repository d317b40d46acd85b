//! Deployment of an OVF item of a content library.

use crate::{Client, Error, Kind, MoRef, Result};

/// A deployment as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deploy {
    /// The item's id.
    pub item_id: String,
    /// The machine's name.
    pub name: String,
    /// The machine's notes.
    pub annotation: Option<String>,
    /// The resource pool.
    pub pool: MoRef,
    /// The folder.
    pub folder: MoRef,
    /// The host; only a cluster without DRS needs one.
    pub host: Option<MoRef>,
    /// The datastore of all disks.
    pub datastore: Option<MoRef>,
    /// The storage policy's id.
    pub profile: Option<String>,
    /// How the disks are laid out.
    pub provisioning: Option<Provisioning>,
    /// Networks of the descriptor and what they become.
    pub networks: Vec<(String, MoRef)>,
}

/// How disks are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// Grown when written.
    Thin,
    /// Reserved.
    Thick,
    /// Reserved and zeroed.
    EagerZeroedThick,
}

impl Client {
    /// Deploys an OVF item and waits for it. The machine is powered off.
    ///
    /// vCenter answers only when the disks are copied, so this may take long; the deadline is the caller's.
    /// Never sent twice: after a lost answer look for the name in the folder.
    pub async fn deploy_ovf(&self, deploy: &Deploy, deadline: std::time::Duration) -> Result<MoRef> {
        let _ = deadline;
        Err(Error::new("deploy", Kind::Unsupported { what: "not written yet".into() }).on(&deploy.name))
    }
}
