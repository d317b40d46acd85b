//! Objects that a workload cluster gets from its namespace (storage classes, and administrators from the namespace's
//! editors), from its spec (token issuers), and from the management cluster (its address).
//!
//! | module | contents |
//! |---|---|
//! | [`namespace`] | watches on the objects of all namespaces, and the facts that concern a cluster |
//! | [`mod@storage_classes`] | a workload cluster's StorageClasses |
//! | [`mod@role_bindings`] | a workload cluster's ClusterRoleBindings |
//! | [`mod@supervisor`] | the Service that leads to the management cluster |
//! | [`mod@authentication`] | the token issuers that API servers accept |
//! | [`wanted`] | desired objects, and problems that prevent other objects |
//!
//! All code is pure, except for the watches. The [guest controller](crate::addons::controller) applies each object set as its own ApplySet,
//! and `cluster/guest/synced.rs` converts its reports to conditions.

pub mod authentication;
pub mod namespace;
pub mod role_bindings;
pub mod storage_classes;
pub mod supervisor;
pub mod wanted;

use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use kube::ResourceExt;

use crate::addons::choice::{BundleSource, BundledClasses, ChosenAddon};
use namespace::NamespaceFacts;
use role_bindings::People;
use wanted::WantedObjects;

/// The slot in which the engine applies the storage classes. Users can't give this name to an add-on.
pub const STORAGE_CLASSES: &str = "sync.storage-classes";
/// The slot in which the engine applies the administrators' bindings.
pub const ROLE_BINDINGS: &str = "sync.role-bindings";

/// The slot in which the engine applies the management cluster's Service.
pub const SUPERVISOR: &str = "sync.supervisor";

/// The slot in which the engine applies the token issuers.
pub const AUTHENTICATION: &str = "sync.authentication";

/// Returns the storage classes for a workload cluster. The set is empty if a bundle provides the classes.
pub fn storage_classes(
    tkc: &TanzuKubernetesCluster,
    facts: &NamespaceFacts,
    bundled: Option<&BundledClasses>,
) -> WantedObjects {
    let settings = tkc.spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    let namespace = tkc.namespace().unwrap_or_default();
    let mut wanted = match bundled {
        Some(BundledClasses::InBundle(config_map)) => storage_classes::of_bundle(settings, config_map),
        _ => storage_classes::wanted(settings, &namespace, &facts.classes),
    };
    if let Some(BundledClasses::Invalid(config_map)) = bundled {
        wanted.problems.push(storage_classes::invalid_annotation(config_map));
    }
    wanted
}

/// Returns true if a cluster's spec requests storage.
pub fn is_storage_requested(tkc: &TanzuKubernetesCluster) -> bool {
    let settings = tkc.spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    storage_classes::is_requested(settings)
}

/// Returns the administrator bindings for a workload cluster.
pub fn role_bindings(tkc: &TanzuKubernetesCluster, facts: &NamespaceFacts) -> WantedObjects {
    role_bindings::wanted(&tkc.namespace().unwrap_or_default(), &facts.role_bindings)
}

/// Counts the users and groups that become administrators of a workload cluster.
pub fn people(facts: &NamespaceFacts) -> People {
    role_bindings::count(&facts.role_bindings)
}

/// Returns the Service for the management cluster, if the management cluster's address is known.
pub fn supervisor(facts: &NamespaceFacts) -> Option<WantedObjects> {
    facts.supervisor.as_ref().map(supervisor::wanted)
}

/// Returns all sets that come from the namespace and the management cluster, for the guest.
pub fn sets(
    tkc: &TanzuKubernetesCluster,
    facts: &NamespaceFacts,
    bundled: Option<&BundledClasses>,
) -> Vec<ChosenAddon> {
    let mut sets = vec![
        set(STORAGE_CLASSES, storage_classes(tkc, facts, bundled)),
        set(ROLE_BINDINGS, role_bindings(tkc, facts)),
    ];
    sets.extend(supervisor(facts).map(|wanted| set(SUPERVISOR, wanted)));
    sets
}

/// Returns a set for the guest.
pub fn set(name: &str, wanted: WantedObjects) -> ChosenAddon {
    let source = BundleSource::Generated(Arc::new(wanted.objects));
    ChosenAddon { name: name.to_owned(), type_: None, source }
}
