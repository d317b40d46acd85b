//! Values that new clusters inherit from the TkgServiceConfiguration, and the rules for that configuration.
//!
//! Inherited values are written into a cluster when it is created, and a drain timeout also into a pool when it is added. A
//! change to the configuration therefore never replaces nodes, and a cluster's spec shows all its settings.

use api::gcm::parts::{NetworkSettings, Settings};
use api::gcm::{TanzuKubernetesCluster, TanzuKubernetesClusterSpec, TkgServiceConfigurationSpec};
use jiff::Timestamp;
use serde_json::Value;

use super::defaults::{DefaultValue, default_value};
use super::denial::FieldDenial;
use super::network::CNIS;
use super::{is_created, node_text, settings};
use crate::duration;
use crate::spec::network::network_settings;

/// The prefix of the cluster fields for the proxy and the trusted certificate authorities.
const CLUSTER_PATH: &str = "spec.settings.network.";

/// Returns the values that a new cluster or pool leaves out and the configuration provides. They take precedence over the
/// general defaults.
pub fn inherited_values(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    configuration: &TkgServiceConfigurationSpec,
) -> Vec<DefaultValue> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let TkgServiceConfigurationSpec { default_cni, proxy, trust, default_node_drain_timeout } = configuration;
    let mut values = Vec::new();
    if is_created(new, old) {
        let network = network_settings(&new.spec);
        let names_cni =
            network.and_then(|network| network.cni.as_ref()).is_some_and(|cni| !cni.name.is_empty());
        let mut inherit = |there: bool, key: &str, value: Option<Value>| {
            let value = value.filter(|value| !there && !value.is_null());
            values.extend(value.map(|value| default_value(&format!("spec.settings.network.{key}"), value)));
        };
        inherit(names_cni, "cni.name", default_cni.clone().filter(|name| !name.is_empty()).map(Value::from));
        // An empty proxy in the cluster counts as set: it means that the cluster doesn't use a proxy.
        let of =
            |part: Option<Value>| part.filter(|part| part.as_object().is_some_and(|part| !part.is_empty()));
        inherit(network.is_some_and(|n| n.proxy.is_some()), "proxy", of(serde_json::to_value(proxy).ok()));
        inherit(network.is_some_and(|n| n.trust.is_some()), "trust", of(serde_json::to_value(trust).ok()));
    }
    values.extend(drain_timeouts(new, old, default_node_drain_timeout.as_deref()));
    values
}

/// Returns drain timeouts for new node groups that don't set one.
fn drain_timeouts(
    new: &TanzuKubernetesCluster,
    old: Option<&TanzuKubernetesCluster>,
    timeout: Option<&str>,
) -> Vec<DefaultValue> {
    let Some(timeout) = timeout.filter(|timeout| !timeout.is_empty()) else { return Vec::new() };
    let created = is_created(new, old);
    let topology = &new.spec.topology;
    let mut paths = Vec::new();
    if created && topology.control_plane.node_drain_timeout.is_none() {
        paths.push("spec.topology.controlPlane.nodeDrainTimeout".to_owned());
    }
    let joins = |name: &str| {
        created || old.is_some_and(|old| !old.spec.topology.node_pools.iter().any(|pool| pool.name == name))
    };
    let pools = topology.node_pools.iter().enumerate();
    let lacking = pools.filter(|(_, pool)| pool.node_drain_timeout.is_none() && joins(&pool.name));
    paths.extend(lacking.map(|(at, _)| format!("spec.topology.nodePools.{at}.nodeDrainTimeout")));
    paths.iter().map(|path| default_value(path, timeout)).collect()
}

/// Returns the warnings about a configuration at the time `now`, by the rules for the cluster fields that the configuration
/// sets.
pub fn warnings(configuration: &TkgServiceConfigurationSpec, now: Timestamp) -> Vec<String> {
    let texts = settings::warnings(&as_cluster(configuration), now);
    texts.into_iter().map(|text| text.replace(CLUSTER_PATH, "spec.")).collect()
}

/// Returns a cluster spec that contains only the configuration's proxy and trusted certificate authorities.
fn as_cluster(configuration: &TkgServiceConfigurationSpec) -> TanzuKubernetesClusterSpec {
    let TkgServiceConfigurationSpec { default_cni: _, proxy, trust, default_node_drain_timeout: _ } =
        configuration;
    let network = NetworkSettings { proxy: proxy.clone(), trust: trust.clone(), ..Default::default() };
    let settings = Some(Settings { network: Some(network), ..Default::default() });
    TanzuKubernetesClusterSpec { settings, ..Default::default() }
}

/// Returns the denials for a configuration, by the rules for the cluster fields that the configuration sets.
pub fn denials(configuration: &TkgServiceConfigurationSpec) -> Vec<FieldDenial> {
    let TkgServiceConfigurationSpec { default_cni, proxy: _, trust: _, default_node_drain_timeout } =
        configuration;
    let spec = as_cluster(configuration);
    let mut denials = settings::denials(&spec, None);
    node_text::add_denials(&mut denials, &spec);
    // Bundles belong to one namespace, so only networks from releases can be the default for all clusters.
    let unknown = default_cni.as_deref().filter(|name| !name.is_empty() && !CNIS.contains(name));
    denials.extend(unknown.map(|name| {
        let remedy = format!(
            "Use one of: {}; a cluster can also use one that its namespace has a bundle for",
            CNIS.join(", ")
        );
        FieldDenial::new(
            "spec.defaultCNI",
            format!("{name:?} is not a container network that comes with releases"),
            remedy,
        )
    }));
    for denial in &mut denials {
        denial.field = denial.field.replace(CLUSTER_PATH, "spec.");
    }
    let timeout = default_node_drain_timeout.as_deref().filter(|text| !text.is_empty());
    denials.extend(timeout.filter(|text| duration::parse_seconds(text).is_none()).map(|text| {
        FieldDenial::new(
            "spec.defaultNodeDrainTimeout",
            format!("{text:?} is not a duration"),
            "Write a duration such as 5m, 1h30m or 300s; 0 means no limit",
        )
    }));
    denials
}

#[cfg(test)]
mod tests {
    use api::names::finalizer;
    use kube::ResourceExt;
    use serde_json::json;

    use super::super::defaults::{filled_in, missing_values};
    use super::super::validate;
    use super::*;
    use crate::testing::{AUTHORITY, SITE_VERSIONS, available, sound};

    fn configuration(spec: Value) -> TkgServiceConfigurationSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn full() -> TkgServiceConfigurationSpec {
        configuration(json!({
            "defaultCNI": "calico",
            "proxy": {"httpProxy": "http://u:secret@10.0.0.1:80", "httpsProxy": "http://10.0.0.1:80", "noProxy": ["10.0.0.0/8"]},
            "trust": {"additionalTrustedCAs": [{"name": "corp", "data": AUTHORITY}]},
            "defaultNodeDrainTimeout": "5m",
        }))
    }

    /// Returns the object that the API server stores after the mutating webhook.
    fn filled(new: &TanzuKubernetesCluster, old: Option<&TanzuKubernetesCluster>) -> Value {
        let object = serde_json::to_value(new).unwrap();
        let inherited = filled_in(&object, &inherited_values(new, old, &full()));
        let new = serde_json::from_value(inherited.clone()).unwrap();
        filled_in(&inherited, &missing_values(&new, old, &available(&SITE_VERSIONS)))
    }

    #[test]
    fn a_new_cluster_inherits_what_its_author_leaves_out() {
        let stored = filled(&sound(), None);
        let network = &stored["spec"]["settings"]["network"];
        assert_eq!(network["cni"]["name"], "calico");
        assert_eq!(network["proxy"], json!(full().proxy));
        assert_eq!(network["trust"], json!(full().trust));
        for group in ["controlPlane", "nodePools/0"] {
            let timeout = stored.pointer(&format!("/spec/topology/{group}/nodeDrainTimeout"));
            assert_eq!(timeout, Some(&json!("5m")), "{group}");
        }
        let cluster: TanzuKubernetesCluster = serde_json::from_value(stored).unwrap();
        assert_eq!(validate(&cluster, None, &available(&SITE_VERSIONS)), []);
    }

    #[test]
    fn what_its_author_says_wins_and_an_empty_proxy_is_none() {
        let mut own = serde_json::to_value(sound()).unwrap();
        own["spec"]["settings"]["network"]["cni"] = json!({"name": "antrea"});
        own["spec"]["settings"]["network"]["proxy"] = json!({});
        own["spec"]["settings"]["network"]["trust"] = json!({"additionalTrustedCAs": []});
        own["spec"]["topology"]["nodePools"][0]["nodeDrainTimeout"] = json!("0");
        let stored = filled(&serde_json::from_value(own.clone()).unwrap(), None);
        assert_eq!(stored["spec"]["settings"]["network"]["cni"], json!({"name": "antrea"}));
        assert_eq!(stored["spec"]["settings"]["network"]["proxy"], json!({}));
        assert_eq!(stored["spec"]["settings"]["network"]["trust"], json!({"additionalTrustedCAs": []}));
        assert_eq!(stored["spec"]["topology"]["nodePools"][0]["nodeDrainTimeout"], "0");
    }

    #[test]
    fn a_cluster_that_runs_or_was_moved_here_inherits_nothing_but_for_a_pool_that_joins() {
        let spec = &full();
        let mut moved = sound();
        moved.finalizers_mut().push(finalizer::TKC.to_owned());
        assert_eq!(inherited_values(&moved, None, spec), []);
        assert_eq!(inherited_values(&sound(), Some(&sound()), spec), []);
        let mut more = sound();
        let pool = more.spec.topology.node_pools[0].clone();
        more.spec.topology.node_pools.push(api::gcm::parts::NodePool { name: "gpu".to_owned(), ..pool });
        let values = inherited_values(&more, Some(&sound()), spec);
        assert_eq!(values, [default_value("spec.topology.nodePools.1.nodeDrainTimeout", "5m")]);
    }

    #[test]
    fn a_configuration_follows_the_rules_of_the_fields_it_fills_in() {
        assert_eq!(denials(&full()), []);
        assert_eq!(denials(&configuration(json!({}))), []);
        let wrong = configuration(json!({
            "defaultCNI": "cilium",
            "proxy": {"httpProxy": "u:secret@p"},
            "trust": {"additionalTrustedCAs": [{"name": "a/b", "data": "-----BEGIN CERTIFICATE-----"}]},
            "defaultNodeDrainTimeout": "soon",
        }));
        let texts: Vec<String> = denials(&wrong).iter().map(ToString::to_string).collect();
        assert!(!texts.concat().contains("secret"));
        insta::assert_yaml_snapshot!(texts);
    }
}
