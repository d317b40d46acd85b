//! Defaults for fields that a cluster's author left out.

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, label};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::container_network::default_network;
use super::denial::FieldDenial;
use super::{network, node_images, version};
use crate::release::resolution::{self, AvailableRelease};
use crate::release::version::Version;
use crate::spec::network::{CNI, DOMAIN, PODS, SERVICES, network_settings};
use crate::spec::release::{current_version, release_request};

const NETWORK: &str = "spec.settings.network.cni.name";

/// A default value and its path.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultValue {
    /// The path from the object's root.
    pub path: Vec<String>,
    pub value: Value,
}

pub(super) fn default_value(path: &str, value: impl Into<Value>) -> DefaultValue {
    DefaultValue { path: path.split('.').map(str::to_owned).collect(), value: value.into() }
}

/// Returns default values for fields that a cluster's author left out, given the cluster's previous state and the available
/// releases. A cluster that is being deleted doesn't get any.
pub fn missing_values(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Vec<DefaultValue> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let resolved = resolution::resolve_release(version::intended_request(new, old), available);
    let network = |release| default_network(release, node_images::chosen(new, release));
    let cni = resolved.as_ref().map_or(CNI, |release| network(release));
    let mut values = constants(new, cni);
    values.extend(omitted_records(new, old));
    if let Ok(candidate) = resolved {
        values.extend(release(new, old, &candidate.version));
    }
    values
}

/// Returns a denial if gcm can't choose a container network for a new cluster that doesn't name one. The choice depends on the
/// release's node images. If all images are unknown, gcm doesn't guess, because a cluster's network can't change.
pub fn unknown_network_denial(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> Option<FieldDenial> {
    let is_new = super::is_created(new, old) && new.metadata.deletion_timestamp.is_none();
    if !is_new || named_network(new).is_some() {
        return None;
    }
    let release = resolution::resolve_release(version::intended_request(new, old), available).ok()?;
    if !release.images.is_empty() || release.missing_images.is_empty() {
        return None;
    }
    let (name, missing) = (release.version.object_name(), release.missing_images.join(", "));
    let reason = format!(
        "gcm cannot choose a container network, because it knows no usable OSImage of TanzuKubernetesRelease {name}. The release names {missing}"
    );
    Some(FieldDenial::new(
        NETWORK,
        reason,
        "Apply the manifest again when condition Valid of the release is True, or set this field",
    ))
}

/// Returns the container network that the cluster names.
fn named_network(tkc: &TanzuKubernetesCluster) -> Option<&str> {
    let cni = network_settings(&tkc.spec)?.cni.as_ref()?;
    Some(cni.name.as_str()).filter(|name| !name.is_empty())
}

/// Returns the values of record annotations that an update omits, so that the cluster keeps them. `kubectl replace` omits such
/// annotations. Any other change to them is denied by a policy.
fn omitted_records(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Vec<DefaultValue> {
    let kept = |key: &str| {
        let value = old?.annotations().get(key)?;
        let path = ["metadata", "annotations", key].map(str::to_owned).to_vec();
        (!new.annotations().contains_key(key)).then(|| DefaultValue { path, value: value.as_str().into() })
    };
    annotation::RECORDS.iter().filter_map(|key| kept(key)).collect()
}

fn constants(new: &TanzuKubernetesCluster, default_cni: &str) -> Vec<DefaultValue> {
    let network = network_settings(&new.spec);
    let cni = named_network(new);
    let unranged = |ranges: Option<&api::gcm::parts::NetworkRanges>| {
        ranges.and_then(|ranges| ranges.cidr_blocks.as_deref()).is_none_or(<[String]>::is_empty)
    };
    let mut values = Vec::new();
    if new.spec.topology.control_plane.replicas.is_none() {
        values.push(default_value("spec.topology.controlPlane.replicas", 1));
    }
    if cni.is_none() {
        values.push(default_value(NETWORK, default_cni));
    }
    if unranged(network.and_then(|n| n.pods.as_ref())) && cni != Some(network::ROUTED) {
        values.push(default_value("spec.settings.network.pods.cidrBlocks", json!([PODS])));
    }
    if unranged(network.and_then(|n| n.services.as_ref())) {
        values.push(default_value("spec.settings.network.services.cidrBlocks", json!([SERVICES])));
    }
    if network.and_then(|n| n.service_domain.as_deref()).is_none_or(str::is_empty) {
        values.push(default_value("spec.settings.network.serviceDomain", DOMAIN));
    }
    values
}

/// Returns the release as the value of each field and label that names it. Leaves out fields that already mean this release, and
/// pools that don't follow the cluster's release.
fn release(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    chosen: &Version,
) -> Vec<DefaultValue> {
    let name = chosen.object_name();
    let means = |text: &str| Version::parse(text).ok().as_ref() == Some(chosen);
    let written = release_request(new);
    let mut values = Vec::new();
    if !means(written.full) {
        values.push(default_value("spec.distribution.fullVersion", chosen.to_string()));
    }
    if !means(written.reference) {
        values.push(default_value("spec.topology.controlPlane.tkr.reference.name", name.as_str()));
    }
    let before = old.and_then(current_version);
    for (at, pool) in new.spec.topology.node_pools.iter().enumerate() {
        let written = pool.tkr.as_ref().and_then(api::gcm::parts::Tkr::name);
        if written.is_none_or(|text| !means(text) && version::follows(text, chosen, before.as_ref())) {
            values.push(default_value(
                &format!("spec.topology.nodePools.{at}.tkr.reference.name"),
                name.as_str(),
            ));
        }
    }
    let labelled = new.metadata.labels.as_ref().and_then(|labels| labels.get(label::TKR));
    if name.len() <= 63 && labelled != Some(&name) {
        let path = ["metadata", "labels", label::TKR].map(str::to_owned).to_vec();
        values.push(DefaultValue { path, value: name.into() });
    }
    values
}

/// Returns the member or element at one step of a path. A missing member is created as null.
fn step_into<'v>(at: &'v mut Value, step: &str) -> &'v mut Value {
    match step.parse::<usize>() {
        Ok(index) if at.is_array() => &mut at[index],
        _ => &mut at[step],
    }
}

/// Returns the JSON patch (RFC 6902) that adds the values to an object. Creates missing parent objects.
pub fn patch(object: &Value, values: &[DefaultValue]) -> Value {
    let mut filled = object.clone();
    let mut operations = Vec::new();
    for DefaultValue { path, value } in values {
        let mut at = &mut filled;
        let mut pointer = String::new();
        for (depth, step) in path.iter().enumerate() {
            pointer.push('/');
            pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            let last = depth + 1 == path.len();
            let next = step_into(at, step);
            if last || next.is_null() {
                let new = if last { value.clone() } else { json!({}) };
                operations.push(json!({"op": "add", "path": pointer, "value": new}));
                *next = new;
            }
            at = next;
        }
    }
    // "add" replaces an object member but inserts into a list. Paths never end in a list, so that doesn't matter.
    Value::Array(operations)
}

/// Returns the object with these values set.
pub fn filled_in(object: &Value, values: &[DefaultValue]) -> Value {
    let mut object = object.clone();
    for DefaultValue { path, value } in values {
        let at = path.iter().fold(&mut object, |at, step| step_into(at, step));
        *at = value.clone();
    }
    object
}

/// Returns the cluster with its defaults set, for callers that don't send a patch to an API server.
pub fn with_defaults(
    tkc: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    available: &[AvailableRelease],
) -> TanzuKubernetesCluster {
    let Ok(object) = serde_json::to_value(tkc) else { return tkc.clone() };
    let filled = filled_in(&object, &missing_values(tkc, old, available));
    serde_json::from_value(filled).unwrap_or_else(|_| tkc.clone())
}
