//! Where a child is that is not where it was made: an administrator may have renamed it, moved it, or destroyed it.

use std::collections::BTreeSet;

use vsphere::MoRef;

use crate::policy::ledger::Child;
use crate::vcenter::VCenter;

/// Where a child is that a ledger records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In its parent, whatever its name is.
    Here(MoRef),
    /// In another parent.
    Moved {
        /// Its name now.
        name: String,
        /// What it is in now.
        parent: MoRef,
    },
    /// Nowhere, or the id is another policy's child by now: a restored vCenter gives ids a second time.
    Gone,
}

/// Where the child is, which has that id.
pub async fn locate(
    made: &MoRef,
    child: &Child,
    others: &BTreeSet<String>,
    vcenter: &VCenter,
) -> vsphere::Result<Whereabouts> {
    if others.contains(made.id()) {
        return Ok(Whereabouts::Gone);
    }
    let read = match vcenter.client.retrieve(std::slice::from_ref(made), &["name", "parent"]).await {
        Err(error) if error.is_not_found() => return Ok(Whereabouts::Gone),
        read => read?,
    };
    let Some(object) = read.first() else { return Ok(Whereabouts::Gone) };
    Ok(match object.get("parent").as_moref() {
        Some(parent) if *parent == child.parent() => Whereabouts::Here(made.clone()),
        Some(parent) => Whereabouts::Moved {
            name: object.get("name").as_str().unwrap_or_default().to_owned(),
            parent: parent.clone(),
        },
        None => Whereabouts::Gone,
    })
}
