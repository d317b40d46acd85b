//! How nodes are bootstrapped: what kubeadm is told, on the control plane and on workers.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::capi::{KubeadmConfigTemplate, KubeadmControlPlane};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::{ControlPlane, NodePool, Proxy, Trust};
use api::gcm::release::ContainerImage;
use api::names::{self, label};
use serde_json::{Map, Value, json};

use super::{Input, cluster::reference, object};
use crate::admission::nodes::{kubelet_may_set, machine_label_reaches_node};
use crate::admission::settings;
use crate::duration;

/// Add-ons are this program's: Cluster API is not to touch those that kubeadm brings.
const HANDS_OFF: [&str; 2] =
    ["controlplane.cluster.x-k8s.io/skip-coredns", "controlplane.cluster.x-k8s.io/skip-kube-proxy"];
/// Takes authorities up on Photon.
pub const REHASH: &str = "rehash_ca_certificates.sh";
/// The user for those who must get into a node.
const USER: &str = "vmware-system-user";

/// The KubeadmControlPlane, whose machines are made from the template of this name.
pub fn control_plane(input: &Input<'_>, template: &str) -> Result<KubeadmControlPlane, serde_json::Error> {
    let ControlPlane { replicas, vm_class: _, storage_class: _, volumes: _, tkr: _, node_drain_timeout } =
        &input.tkc.spec.topology.control_plane;
    let mut metadata =
        input.metadata(&names::control_plane(&input.name()), &[(label::TKR, &input.release_label())]);
    metadata["annotations"] =
        HANDS_OFF.iter().map(|key| ((*key).to_owned(), json!(""))).collect::<Map<_, _>>().into();
    let registration = registration(input, &BTreeMap::new());
    let mut config = common(input);
    config["clusterConfiguration"] = cluster_configuration(input);
    config["initConfiguration"] = json!({ "nodeRegistration": registration });
    config["joinConfiguration"] = json!({ "nodeRegistration": registration });
    let mut machine = json!({ "infrastructureRef": reference::<WCPMachineTemplate>(template) });
    if let Some(seconds) = drain_seconds(node_drain_timeout.as_deref()) {
        machine["deletion"] = json!({ "nodeDrainTimeoutSeconds": seconds });
    }
    let spec = json!({
        "replicas": replicas.unwrap_or(1),
        "version": input.release.kubernetes,
        "machineTemplate": { "spec": machine },
        "kubeadmConfigSpec": config,
    });
    object(&metadata, &spec)
}

/// The KubeadmConfigTemplate of a pool, named after its content.
pub fn pool_config(input: &Input<'_>, pool: &NodePool) -> Result<KubeadmConfigTemplate, serde_json::Error> {
    let labels = pool.labels.clone().unwrap_or_default();
    let mut registration = registration(input, &labels);
    if let Some(taints) = pool.taints.as_ref().filter(|taints| !taints.is_empty()) {
        registration["taints"] = json!(taints);
    }
    let mut config = common(input);
    config["joinConfiguration"] = json!({ "nodeRegistration": registration });
    let spec = json!({ "template": { "spec": config } });
    let name = names::pool_template(&input.name(), &pool.name, &spec.to_string());
    object(&input.metadata(&name, &[(label::NODE_POOL, &pool.name)]), &spec)
}

/// How long draining may take; 0 and nothing both mean: as long as it takes.
pub fn drain_seconds(text: Option<&str>) -> Option<i32> {
    text.and_then(duration::seconds).filter(|seconds| *seconds > 0)
}

fn cluster_configuration(input: &Input<'_>) -> Value {
    let release = input.release;
    let mut configuration = json!({
        "certificatesDir": "/etc/kubernetes/pki",
        "apiServer": { "extraArgs": arguments(&[("profiling", "false"), ("tls-min-version", "VersionTLS12")]) },
        "controllerManager": { "extraArgs": arguments(&[("profiling", "false")]) },
        "scheduler": { "extraArgs": arguments(&[("profiling", "false")]) },
    });
    if let Some(repository) = &release.image_repository {
        configuration["imageRepository"] = json!(repository);
    }
    if let Some(dns) = release.coredns.as_ref().and_then(image) {
        configuration["dns"] = dns;
    }
    if let Some(etcd) = release.etcd.as_ref().and_then(image) {
        configuration["etcd"] = json!({ "local": etcd });
    }
    configuration
}

fn image(image: &ContainerImage) -> Option<Value> {
    let fields = [("imageRepository", &image.image_repository), ("imageTag", &image.image_tag)];
    let image: Map<_, _> = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), json!(value.as_ref()?))))
        .collect();
    (!image.is_empty()).then_some(image.into())
}

fn arguments(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// How a node introduces itself. What only the machine knows comes from its own metadata, through jinja.
fn registration(input: &Input<'_>, labels: &BTreeMap<String, String>) -> Value {
    let mut text = format!(
        "{}={}",
        label::KUBERNETES_DISTRIBUTION_VERSION,
        names::joined(&input.release.offer.version.label_value(), "", names::MAX_MACHINE_NAME)
    );
    for (key, value) in
        labels.iter().filter(|(key, _)| kubelet_may_set(key) && !machine_label_reaches_node(key))
    {
        let _ = write!(text, ",{key}={value}");
    }
    json!({
        "name": "{{ ds.meta_data.local_hostname }}",
        "kubeletExtraArgs": arguments(&[
            ("node-labels", &text),
            ("provider-id", "{{ ds.meta_data.provider_id }}"),
        ]),
    })
}

/// What every node of the cluster gets.
fn common(input: &Input<'_>) -> Value {
    let network = input.tkc.spec.settings.as_ref().and_then(|settings| settings.network.as_ref());
    let mut files = Vec::new();
    let mut commands = vec!["hostnamectl set-hostname \"{{ ds.meta_data.hostname }}\"".to_owned()];
    if let Some(trust) = network.and_then(|network| network.trust.as_ref()) {
        let authorities = trusted(trust);
        if !authorities.is_empty() {
            files.extend(authorities);
            commands.push(trust_command(&input.image.labels));
        }
    }
    if let Some(file) = network.and_then(|network| network.proxy.as_ref()).and_then(proxy) {
        files.push(file);
        commands.extend(["systemctl daemon-reload".to_owned(), "systemctl restart containerd".to_owned()]);
    }
    let mut config = json!({
        "preKubeadmCommands": commands,
        "users": [{ "name": USER, "sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "lockPassword": true }],
    });
    if !files.is_empty() {
        config["files"] = json!(files);
    }
    config
}

/// Photon keeps authorities where OpenSSL looks; Debian's family has a folder of its own for local ones.
fn trust_command(os: &BTreeMap<String, String>) -> String {
    let photon = os.get("os-name").is_some_and(|name| name == "photon");
    if photon { REHASH } else { "update-ca-certificates" }.to_owned()
}

fn trusted(trust: &Trust) -> Vec<Value> {
    let authorities = trust.additional_trusted_cas.iter().flatten();
    authorities
        .filter_map(|authority| Some((settings::stem(&authority.name), settings::pem(&authority.data)?)))
        .flat_map(|(name, pem)| {
            let folders = [
                format!("/etc/ssl/certs/{name}.pem"),
                format!("/usr/local/share/ca-certificates/{name}.crt"),
            ];
            folders.map(
                |path| json!({ "path": path, "owner": "root:root", "permissions": "0644", "content": pem }),
            )
        })
        .collect()
}

/// A value as systemd reads it back: `%` begins a specifier, and passwords in URLs are full of it.
fn in_unit(value: &str) -> String {
    value.trim().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%")
}

/// containerd pulls images; the file carries a password, so only root may read it.
fn proxy(proxy: &Proxy) -> Option<Value> {
    let Proxy { http_proxy, https_proxy, no_proxy } = proxy;
    let (http, https) = (in_unit(http_proxy.as_deref()?), in_unit(https_proxy.as_deref()?));
    let without = in_unit(&no_proxy.as_deref().unwrap_or_default().join(","));
    let content = format!(
        "[Service]\nEnvironment=\"HTTP_PROXY={http}\"\nEnvironment=\"HTTPS_PROXY={https}\"\nEnvironment=\"NO_PROXY={without}\"\n"
    );
    Some(json!({
        "path": "/etc/systemd/system/containerd.service.d/http-proxy.conf",
        "owner": "root:root",
        "permissions": "0600",
        "content": content,
    }))
}
