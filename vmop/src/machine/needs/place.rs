//! Where a machine lies.

use api::names::annotation;
use vsphere::MoRef;

use super::{Need, Unmet};
use crate::provider::Place;
use crate::provider::config::Settings;

/// Reason of a namespace without folder or pool.
pub const PLACEMENT_NOT_READY: &str = "PlacementNotReady";

/// Folder and pool of the namespace, by its annotations, else as configured.
pub fn home(namespace: &str, annotated: impl Fn(&str) -> Option<String>, settings: &Settings) -> Need<Place> {
    let lacks = |key: &str| {
        Unmet::wrong(
            PLACEMENT_NOT_READY,
            format!(
                "Namespace {namespace} has no annotation {key}. Set it to the MoID of what the namespace was given in vCenter"
            ),
        )
    };
    let folder = annotated(annotation::NAMESPACE_FOLDER).or_else(|| settings.folder.clone());
    let pool = annotated(annotation::NAMESPACE_RESOURCE_POOL).or_else(|| settings.resource_pool.clone());
    Ok(Place {
        folder: MoRef::folder(folder.ok_or_else(|| lacks(annotation::NAMESPACE_FOLDER))?),
        pool: MoRef::pool(pool.ok_or_else(|| lacks(annotation::NAMESPACE_RESOURCE_POOL))?),
    })
}
