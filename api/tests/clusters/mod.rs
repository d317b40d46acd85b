//! Generates arbitrary TanzuKubernetesClusters for property-based tests.

use std::collections::BTreeMap;

use api::{
    Quantity,
    capw::ApiEndpoint,
    conditions::Condition,
    gcm::{
        authentication::{AuthenticationSettings, ClaimMappings, Issuer, JwtAuthenticator, PrefixedClaim},
        v1alpha1, v1alpha3,
    },
};
use k8s_openapi::api::core::v1::Taint;
use proptest::{collection::vec, option, prelude::*};

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,2}", Just(String::new())]
}

fn version() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![
        Just(String::new()),
        Just("v1.33".to_owned()),
        Just("1.20.12+vmware.1-tkg.1.b9a42f3".to_owned()),
        Just("v1.20.12+vmware.1-tkg.1.b9a42f3".to_owned()),
    ])
}

fn tkr() -> impl Strategy<Value = Option<v1alpha3::Tkr>> {
    option::of(prop_oneof![
        Just(v1alpha3::Tkr::default()),
        Just(v1alpha3::Tkr::named("v1.20.12---vmware.1-tkg.1.b9a42f3")),
        Just(v1alpha3::Tkr::named("v1.33.1---vmware.1")),
    ])
}

fn volumes() -> impl Strategy<Value = Option<Vec<v1alpha3::Volume>>> {
    let volume = (word(), word(), option::of(word())).prop_map(|(name, mount_path, storage_class)| {
        let capacity = BTreeMap::from([("storage".to_owned(), Quantity::from("4Gi"))]);
        v1alpha3::Volume { name, mount_path, capacity, storage_class }
    });
    option::of(vec(volume, 0..3))
}

fn distribution() -> impl Strategy<Value = v1alpha3::Distribution> {
    (version(), version())
        .prop_map(|(full_version, version)| v1alpha3::Distribution { full_version, version })
}

fn settings() -> impl Strategy<Value = Option<v1alpha3::Settings>> {
    let network = (option::of(word()), option::of(vec(word(), 0..2))).prop_map(|(domain, blocks)| {
        v1alpha3::NetworkSettings {
            service_domain: domain,
            pods: Some(v1alpha3::NetworkRanges { cidr_blocks: blocks }),
            ..v1alpha3::NetworkSettings::default()
        }
    });
    let all = (option::of(network), option::of(authentication()));
    option::of(all.prop_map(|(network, authentication)| v1alpha3::Settings {
        network,
        storage: None,
        authentication,
    }))
}

fn authentication() -> impl Strategy<Value = AuthenticationSettings> {
    (word(), word(), option::of(word())).prop_map(|(url, claim, prefix)| {
        let username = PrefixedClaim { claim, prefix };
        let authenticator = JwtAuthenticator {
            issuer: Issuer { url, ..Issuer::default() },
            claim_mappings: ClaimMappings { username, ..ClaimMappings::default() },
            ..JwtAuthenticator::default()
        };
        AuthenticationSettings { jwt: Some(vec![authenticator]) }
    })
}

fn control_plane() -> impl Strategy<Value = v1alpha3::ControlPlane> {
    (option::of(0..4), word(), word(), volumes(), tkr(), option::of(word())).prop_map(
        |(replicas, vm_class, storage_class, volumes, tkr, node_drain_timeout)| v1alpha3::ControlPlane {
            replicas,
            vm_class,
            storage_class,
            volumes,
            tkr,
            node_drain_timeout,
        },
    )
}

fn node_pool() -> impl Strategy<Value = v1alpha3::NodePool> {
    let name = prop_oneof![Just("workers".to_owned()), word()];
    (name, control_plane(), option::of(word()), any::<bool>()).prop_map(
        |(name, nodes, failure_domain, marked)| {
            let v1alpha3::ControlPlane {
                replicas,
                vm_class,
                storage_class,
                volumes,
                tkr,
                node_drain_timeout,
            } = nodes;
            let taint = Taint { key: "k".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
            v1alpha3::NodePool {
                name,
                labels: marked.then(|| BTreeMap::from([("a".to_owned(), "b".to_owned())])),
                taints: marked.then(|| vec![taint]),
                failure_domain,
                replicas,
                vm_class,
                storage_class,
                volumes,
                tkr,
                node_drain_timeout,
            }
        },
    )
}

pub fn hub_spec() -> impl Strategy<Value = v1alpha3::TanzuKubernetesClusterSpec> {
    (control_plane(), vec(node_pool(), 0..3), option::of(distribution()), settings()).prop_map(
        |(control_plane, node_pools, distribution, settings)| v1alpha3::TanzuKubernetesClusterSpec {
            topology: v1alpha3::Topology { control_plane, node_pools },
            distribution,
            settings,
        },
    )
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    let condition = prop_oneof![
        Just(Condition::is_true("Provisioned")),
        Just(Condition::is_false("Provisioned", "Warning", "ProvisioningFailed", "no")),
        Just(Condition::is_false("Provisioned", "Info", "AddonUnManaged", "")),
        Just(Condition::is_unknown("Provisioned", "Waiting", "")),
        Just(Condition::is_true("Ready")),
    ];
    vec(condition, 0..3)
}

fn cluster_api_status() -> impl Strategy<Value = v1alpha3::ClusterApiStatus> {
    (0..2_usize, option::of(word()), option::of(word())).prop_map(|(endpoints, error_reason, phase)| {
        let endpoint = ApiEndpoint { host: "h".to_owned(), port: 6443 };
        let api_endpoints = vec![endpoint; endpoints];
        v1alpha3::ClusterApiStatus { api_endpoints, error_reason, error_message: None, phase }
    })
}

fn machines() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map(word(), word(), 0..3)
}

pub fn hub_status() -> impl Strategy<Value = v1alpha3::TanzuKubernetesClusterStatus> {
    let type_ = prop_oneof![
        Just(None),
        Just(Some("DNS".to_owned())),
        Just(Some("CNI".to_owned())),
        Just(Some("Other".to_owned()))
    ];
    let addon =
        (word(), type_, option::of(word()), conditions()).prop_map(|(name, type_, version, conditions)| {
            v1alpha3::AddonStatus { name, type_, version, conditions }
        });
    (
        vec(addon, 0..4),
        option::of(cluster_api_status()),
        machines(),
        conditions(),
        option::of(0..9_i32),
        0..2_usize,
    )
        .prop_map(
            |(addons, cluster_api_status, vm_status, conditions, total_worker_replicas, endpoints)| {
                let endpoint = ApiEndpoint { host: "h".to_owned(), port: 6443 };
                v1alpha3::TanzuKubernetesClusterStatus {
                    api_endpoints: vec![endpoint; endpoints],
                    addons,
                    conditions,
                    total_worker_replicas,
                    vm_status,
                    cluster_api_status,
                    ..v1alpha3::TanzuKubernetesClusterStatus::default()
                }
            },
        )
}

fn nodes() -> impl Strategy<Value = v1alpha1::Nodes> {
    (0..4, word(), word(), volumes()).prop_map(|(count, class, storage_class, volumes)| v1alpha1::Nodes {
        count,
        class,
        storage_class,
        volumes,
    })
}

pub fn old_spec() -> impl Strategy<Value = v1alpha1::TanzuKubernetesClusterSpec> {
    (nodes(), nodes(), distribution(), settings()).prop_map(
        |(control_plane, workers, distribution, settings)| v1alpha1::TanzuKubernetesClusterSpec {
            topology: v1alpha1::Topology { control_plane, workers },
            distribution,
            settings,
        },
    )
}

pub fn old_status() -> impl Strategy<Value = v1alpha1::TanzuKubernetesClusterStatus> {
    let status = prop_oneof![
        Just("applied".to_owned()),
        Just("error".to_owned()),
        Just("unmanaged".to_owned()),
        Just("pending".to_owned()),
        word()
    ];
    let addon = (word(), status, option::of(word()), conditions()).prop_map(
        |(name, status, last_error_message, conditions)| v1alpha1::AddonStatus {
            name,
            status,
            version: None,
            last_error_message,
            conditions,
        },
    );
    let addon = addon.boxed();
    let addons = (option::of(addon.clone()), option::of(addon))
        .prop_map(|(dns, csi)| v1alpha1::AddonsStatus { dns, csi, ..v1alpha1::AddonsStatus::default() });
    (option::of(addons), option::of(cluster_api_status()), machines(), option::of(0..3_i32)).prop_map(
        |(addons, cluster_api_status, node_status, node_remediation_count)| {
            v1alpha1::TanzuKubernetesClusterStatus {
                addons,
                cluster_api_status,
                node_status,
                node_remediation_count,
                ..v1alpha1::TanzuKubernetesClusterStatus::default()
            }
        },
    )
}
