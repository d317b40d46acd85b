//! Locates a child that isn't found under its name: an administrator may have renamed, moved or destroyed it.

use std::collections::BTreeSet;

use vsphere::MoRef;

use crate::policy::ledger::Child;
use crate::vcenter::VCenter;

/// A recorded child's location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In its parent, under any name.
    Here(MoRef),
    Moved {
        /// The current name.
        name: String,
        /// The current parent.
        parent: MoRef,
    },
    /// The child isn't in vCenter, or its id belongs to another policy's child: a restored vCenter assigns ids again.
    Gone,
}

/// Locates the child with the id `made`. `others` contains the ids in other policies' ledgers.
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
