//! Validation rules and defaults for TanzuKubernetesClusters.
//!
//! These functions are pure, and the webhook, the reconciler and `layercake lint` all call them. Fields are named as in the
//! stored version, v1alpha3. [`path_in`] translates the names to the user's version.

mod authentication;
pub mod authorities;
mod container_network;
pub mod defaults;
pub mod denial;
mod dns;
pub mod dropped;
mod flannel;
mod go_url;
mod ignored;
pub mod inherited;
pub mod limits;
mod machine_names;
pub mod network;
pub mod node_images;
pub mod node_text;
pub mod nodes;
pub mod overlap;
pub mod places;
pub mod proxy;
pub mod queries;
pub mod rolls;
pub mod settings;
mod trust;
pub mod upgrades;
pub mod version;
pub mod volumes;

use std::collections::BTreeSet;

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, finalizer};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::release::resolution::AvailableRelease;
use crate::release::virtual_ip::VirtualIpFlags;
use denial::FieldDenial;

/// The facts about the installation that admission uses.
#[derive(Clone, Copy)]
pub struct InstallationFacts<'a> {
    /// The releases, with their node images.
    pub available: &'a [AvailableRelease],
    /// The container networks that bundles in the cluster's namespace provide.
    pub bundles: &'a BTreeSet<String>,
    /// The flags that decide which program announces control plane addresses, or `None` if unknown.
    pub virtual_ip: Option<&'a VirtualIpFlags>,
}

/// Returns the denials for `new`, given its previous state and the available releases.
///
/// A cluster that is being deleted is never denied. If the spec didn't change, only rules that depend on annotations apply, so
/// that finalizers and labels stay editable when rules are added.
pub fn validate(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Vec<FieldDenial> {
    validate_with(new, old, &InstallationFacts { available, bundles: &BTreeSet::new(), virtual_ip: None })
}

/// Returns the denials for `new`, like [`validate`], but with the namespace's bundles and the virtual IP flags.
pub fn validate_with(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    installation: &InstallationFacts<'_>,
) -> Vec<FieldDenial> {
    let InstallationFacts { available, bundles, virtual_ip } = *installation;
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let unreadable = queries::denials(new, old);
    let mut denials = Vec::new();
    denials.extend(queries::bounds_denial(new, old));
    denials.extend(limits::denials(new, old));
    denials.extend(flannel::denial(new, old));
    if old.is_some_and(|old| old.spec == new.spec) {
        return [unreadable, denials].concat();
    }
    denials.extend(nodes::name_denials(&new.name_any()));
    denials.extend(nodes::topology_denials(&new.spec.topology, new.metadata.namespace.as_deref()));
    denials.extend(volumes::denials(&new.spec.topology, old.map(|old| &old.spec.topology)));
    denials.extend(version::denials(new, old, available));
    denials.extend(node_images::denials(new, old, available, bundles, virtual_ip));
    denials.extend(trust::denial(new, old, available));
    denials.extend(network::denials(&new.spec));
    denials.extend(network::share_denials(new, old));
    denials.extend(network::cni_denial(&new.spec, old.map(|old| &old.spec), bundles));
    denials.extend(settings::denials(&new.spec, old.map(|old| &old.spec)));
    denials.extend(authentication::denials(new, old, available));
    node_text::add_denials(&mut denials, &new.spec);
    if let Some(old) = old {
        denials.extend(network::change_denials(&old.spec, &new.spec));
        denials.extend(nodes::change_denials(&old.spec.topology, &new.spec.topology));
    }
    // An unreadable selector matches no release. Don't report that as a second fault.
    denials.retain(|denial| unreadable.iter().all(|query| query.field != denial.field));
    [unreadable, denials].concat()
}

/// Returns a denial if a v1alpha1 update would remove or rename node pools because it lacks the annotation that preserves them.
///
/// v1alpha1 represents only one worker group. The other pools are stored in an annotation, which `kubectl replace` drops.
pub fn unseen_pools(new: &TanzuKubernetesCluster, old: &TanzuKubernetesCluster) -> Option<FieldDenial> {
    if new.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let kept = |name: &String| new.spec.topology.node_pools.iter().any(|pool| pool.name == *name);
    let lost: Vec<&str> = old
        .spec
        .topology
        .node_pools
        .iter()
        .filter(|pool| !kept(&pool.name))
        .map(|pool| pool.name.as_str())
        .collect();
    (!lost.is_empty()).then(|| {
        FieldDenial::new(
            "spec.topology.workers",
            format!(
                "v1alpha1 cannot represent the node pools of this cluster, and this change would delete the nodes of: {}",
                lost.join(", ")
            ),
            format!(
                "Keep the annotation {} of the cluster unchanged, as kubectl apply and edit do, or write the cluster as v1alpha3",
                annotation::CONVERSION_DATA
            ),
        )
    })
}

/// Returns true if the cluster is new. A cluster that was moved here already has gcm's finalizer, and isn't new.
pub fn is_created(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> bool {
    old.is_none() && !new.finalizers().iter().any(|own| own == finalizer::TKC)
}

/// Returns a warning about a new object that was exported from an existing cluster: gcm doesn't create a second cluster from
/// such an object.
pub fn copy_warning(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Option<String> {
    let is_copy = old.is_none() && new.annotations().contains_key(annotation::MADE_AS);
    is_copy.then(|| {
        format!(
            "metadata.annotations[{}]: this manifest was exported from a cluster that exists, and no cluster is created from \
             it: gcm waits until Cluster {} is moved here, as `clusterctl move` does. To create a new cluster, remove the \
             annotation, and the labels and annotations that are for the other cluster",
            annotation::MADE_AS,
            new.name_any()
        )
    })
}

/// Returns warnings about settings that are allowed but probably not intended. Certificates are expected to be valid at the time
/// `now`.
pub fn warnings(new: &TanzuKubernetesCluster, available: &[AvailableRelease], now: Timestamp) -> Vec<String> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut warnings = version::warnings(new, available);
    warnings.extend(network::share_warnings(new));
    warnings.extend(settings::warnings(&new.spec, now));
    warnings.extend(trust::warning(new, available));
    warnings.extend(machine_names::warnings(new));
    warnings.extend(ignored::warnings(&new.spec));
    warnings.extend(queries::idle_bounds(new));
    warnings.extend(flannel::idle(new));
    warnings
}

/// Replaces the v1alpha3 field names in a string with the names in API version `version`. Only v1alpha1 names differ.
pub fn path_in(version: &str, field: &str) -> String {
    if version != "v1alpha1" {
        return field.to_owned();
    }
    field
        .replace("spec.topology.controlPlane.tkr.reference.name", "spec.distribution.fullVersion")
        .replace("spec.topology.nodePools[0].tkr.reference.name", "spec.distribution.fullVersion")
        .replace("topology.nodePools[0]", "topology.workers")
        .replace(".replicas", ".count")
        .replace(".vmClass", ".class")
}

#[cfg(test)]
mod tests;
