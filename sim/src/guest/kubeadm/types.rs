//! Types for kubeadm's configuration documents, v1beta3 and v1beta4 combined.
//!
//! Known fields without an effect here keep their raw value. Unknown fields fail to parse.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde_json::Value;

/// A component's command line flags: names without dashes, and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "ArgumentsForm")]
pub struct Arguments(pub Vec<(String, String)>);

#[derive(Deserialize)]
#[serde(untagged)]
enum ArgumentsForm {
    Map(BTreeMap<String, String>),
    List(Vec<Argument>),
    Nothing(()),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Argument {
    name: String,
    #[serde(default)]
    value: String,
}

impl From<ArgumentsForm> for Arguments {
    fn from(form: ArgumentsForm) -> Self {
        Self(match form {
            ArgumentsForm::Map(map) => map.into_iter().collect(),
            ArgumentsForm::List(list) => list.into_iter().map(|one| (one.name, one.value)).collect(),
            ArgumentsForm::Nothing(()) => Vec::new(),
        })
    }
}

impl Arguments {
    /// Returns the last value of a flag, or `None` if the flag isn't set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Deserializes null as the default value.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

macro_rules! document {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* #[serde(deserialize_with = "nullable")] pub $field: $kind),* }
    };
}

document! {
    /// The cluster that `kubeadm init` creates.
    ClusterConfiguration {
        api_version: String,
        kind: String,
        api_server: Component,
        certificates_dir: String,
        cluster_name: String,
        control_plane_endpoint: String,
        controller_manager: Component,
        dns: Dns,
        proxy: Option<Value>,
        etcd: Etcd,
        feature_gates: BTreeMap<String, bool>,
        image_repository: String,
        kubernetes_version: String,
        networking: Networking,
        scheduler: Component,
        encryption_algorithm: Option<String>,
        ca_certificate_validity_period: Option<String>,
        certificate_validity_period: Option<String>,
    }
}

document! {
    /// A control plane component.
    Component {
        extra_args: Arguments,
        extra_volumes: Vec<ExtraVolume>,
        extra_envs: Option<Value>,
        #[serde(rename = "certSANs")]
        cert_sans: Vec<String>,
        timeout_for_control_plane: Option<String>,
    }
}

document! {
    /// A host path that a component mounts.
    ExtraVolume {
        name: String,
        host_path: String,
        mount_path: String,
        read_only: Option<bool>,
        path_type: String,
    }
}

document! {
    /// The cluster's DNS server.
    Dns {
        image_repository: String,
        image_tag: String,
        disabled: Option<bool>,
    }
}

document! {
    /// The etcd location: on the control plane nodes, or external.
    Etcd {
        local: Option<LocalEtcd>,
        external: Option<Value>,
    }
}

document! {
    /// etcd on the control plane nodes.
    LocalEtcd {
        data_dir: String,
        extra_args: Arguments,
        extra_envs: Option<Value>,
        image_repository: String,
        image_tag: String,
        #[serde(rename = "serverCertSANs")]
        server_cert_sans: Vec<String>,
        #[serde(rename = "peerCertSANs")]
        peer_cert_sans: Vec<String>,
    }
}

document! {
    /// The cluster's DNS domain and address ranges.
    Networking {
        dns_domain: String,
        pod_subnet: String,
        service_subnet: String,
    }
}

document! {
    /// The configuration of the first node.
    InitConfiguration {
        api_version: String,
        kind: String,
        bootstrap_tokens: Vec<BootstrapToken>,
        certificate_key: Option<String>,
        dry_run: Option<bool>,
        #[serde(rename = "localAPIEndpoint")]
        local_api_endpoint: Endpoint,
        node_registration: NodeRegistration,
        patches: Option<Value>,
        skip_phases: Vec<String>,
        timeouts: Option<Value>,
    }
}

document! {
    /// A token with which nodes may join.
    BootstrapToken {
        token: String,
        description: Option<String>,
        ttl: Option<String>,
        expires: Option<String>,
        usages: Vec<String>,
        groups: Vec<String>,
    }
}

document! {
    /// The address and port on which the node's API server listens.
    Endpoint {
        advertise_address: String,
        bind_port: u16,
    }
}

document! {
    /// The settings with which the node registers itself.
    NodeRegistration {
        name: String,
        cri_socket: Option<String>,
        ignore_preflight_errors: Vec<String>,
        image_pull_policy: Option<String>,
        image_pull_serial: Option<bool>,
        kubelet_extra_args: Arguments,
        taints: Option<Vec<Taint>>,
    }
}

document! {
    /// The configuration of a joining node.
    JoinConfiguration {
        api_version: String,
        kind: String,
        ca_cert_path: Option<String>,
        control_plane: Option<JoinControlPlane>,
        discovery: Discovery,
        dry_run: Option<bool>,
        node_registration: NodeRegistration,
        patches: Option<Value>,
        skip_phases: Vec<String>,
        timeouts: Option<Value>,
    }
}

document! {
    /// The additional configuration for a node that joins as a control plane node.
    JoinControlPlane {
        #[serde(rename = "localAPIEndpoint")]
        local_api_endpoint: Endpoint,
        certificate_key: Option<String>,
    }
}

document! {
    /// The methods by which a joining node finds its cluster.
    Discovery {
        bootstrap_token: Option<BootstrapTokenDiscovery>,
        file: Option<Value>,
        tls_bootstrap_token: String,
        timeout: Option<String>,
    }
}

document! {
    /// Discovery with a bootstrap token.
    BootstrapTokenDiscovery {
        api_server_endpoint: String,
        ca_cert_hashes: Vec<String>,
        token: String,
        #[serde(rename = "unsafeSkipCAVerification")]
        unsafe_skip_ca_verification: bool,
    }
}
