//! What a guest gets of its cluster's namespace: the storage classes, and as administrators those who may edit there; and of
//! the management cluster: the way there.
//!
//! | module | what is in it |
//! |---|---|
//! | [`namespace`] | what is watched of namespaces, and what of that concerns one cluster |
//! | [`mod@storage_classes`] | the StorageClasses of a guest |
//! | [`mod@role_bindings`] | the ClusterRoleBindings of a guest |
//! | [`mod@supervisor`] | the Service by which a guest finds the management cluster |
//! | [`mod@authentication`] | the issuers whose tokens the API servers of a guest accept |
//! | [`wanted`] | objects that a guest is to have, and what can't be had |
//!
//! All but the watches is pure. The [`engine`](crate::addons::engine) applies the objects, each kind as an ApplySet of its
//! own, and `cluster/synced.rs` makes conditions of what it reports.

pub mod authentication;
pub mod namespace;
pub mod role_bindings;
pub mod storage_classes;
pub mod supervisor;
pub mod wanted;

use std::sync::Arc;

use api::gcm::TanzuKubernetesCluster;
use kube::ResourceExt;

use crate::addons::choice::{BundledClasses, ChosenAddon, Source};
use namespace::NamespaceFacts;
use role_bindings::People;
use wanted::WantedObjects;

/// What the storage classes are known by in the guest; no user can name an add-on so.
pub const STORAGE_CLASSES: &str = "sync.storage-classes";
/// What the bindings of administrators are known by in the guest.
pub const ROLE_BINDINGS: &str = "sync.role-bindings";

/// What the way to the management cluster is known by in the guest.
pub const SUPERVISOR: &str = "sync.supervisor";

/// What the issuers are known by in the guest.
pub const AUTHENTICATION: &str = "sync.authentication";

/// The storage classes that a cluster's guest is to have: none if a bundle has them.
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

/// Returns true if the spec of a cluster asks for storage.
pub fn is_storage_requested(tkc: &TanzuKubernetesCluster) -> bool {
    let settings = tkc.spec.settings.as_ref().and_then(|settings| settings.storage.as_ref());
    storage_classes::is_requested(settings)
}

/// The administrators that a cluster's guest is to have.
pub fn role_bindings(tkc: &TanzuKubernetesCluster, facts: &NamespaceFacts) -> WantedObjects {
    role_bindings::wanted(&tkc.namespace().unwrap_or_default(), &facts.role_bindings)
}

/// The users and groups that become administrators of a cluster's guest.
pub fn people(facts: &NamespaceFacts) -> People {
    role_bindings::count(&facts.role_bindings)
}

/// The way to the management cluster that a guest is to have, where anybody knows it.
pub fn supervisor(facts: &NamespaceFacts) -> Option<WantedObjects> {
    facts.supervisor.as_ref().map(supervisor::wanted)
}

/// All of it, as the engine applies it.
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

/// Objects as the engine applies them, under this name.
pub fn set(name: &str, wanted: WantedObjects) -> ChosenAddon {
    let source = Source::Generated(Arc::new(wanted.objects));
    ChosenAddon { name: name.to_owned(), type_: None, source }
}
