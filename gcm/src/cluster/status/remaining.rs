//! Lists the objects that remain while a cluster is deleted.

use std::sync::Arc;

use kit::events::describe_object;
use kit::watch::Watchable;

use crate::cluster::facts::Facts;

fn names<K: Watchable>(objects: &[Arc<K>]) -> impl Iterator<Item = String> {
    objects.iter().map(|object| describe_object(&**object))
}

/// Returns all remaining objects as strings, starting with the objects that others wait for.
fn list_remaining(facts: &Facts) -> Vec<String> {
    let Facts {
        virtual_ip: _,
        health: _,
        management: _,
        now: _,
        available_releases: _,
        releases: _,
        cluster,
        wcp_cluster,
        control_plane,
        machine_templates,
        config_templates,
        deployments,
        checks,
        accounts,
        sets,
        machines,
        wcp_machines,
        bundles: _,
        addons: _,
        namespace: _,
        synced: _,
        survey: _,
        addons_for: _,
    } = facts;
    names(machines)
        .chain(names(wcp_machines))
        .chain(names(sets))
        .chain(names(deployments))
        .chain(names(control_plane.as_slice()))
        .chain(names(wcp_cluster.as_slice()))
        .chain(names(cluster.as_slice()))
        .chain(names(config_templates))
        .chain(names(machine_templates))
        .chain(names(checks))
        .chain(names(accounts))
        .collect()
}

/// Returns true if all the cluster's objects are deleted.
pub fn is_empty(facts: &Facts) -> bool {
    list_remaining(facts).is_empty()
}

/// Describes the remaining objects: names the first three, and counts the rest.
pub fn remaining(facts: &Facts) -> String {
    const SHOWN: usize = 3;
    let left = list_remaining(facts);
    let shown = left.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match left.len().saturating_sub(SHOWN) {
        0 => format!("{shown} to be deleted"),
        more => format!("{shown} and {more} more to be deleted"),
    }
}
