//! Renders a component's manifests for a cluster: images, certificates, labels and arguments.

use serde_json::{Value, json};

use crate::catalogue::{Component, ManifestSource, Registries};
use crate::certificate::ServingPair;
use crate::guest_proxy;
use crate::settings::SettingsByProgram;

/// The label on everything that `layercake init` installs.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "layercake");
/// The Deployment label with the installed version.
pub const VERSION_LABEL: &str = "app.kubernetes.io/version";
/// The gcm flag that is set if nodes can reach ghcr.io.
pub const PULLS_IMAGES: &str = "--nodes-pull-images";
/// The label by which clusterctl finds its providers' objects.
const CLUSTERCTL_LABEL: &str = "clusterctl.cluster.x-k8s.io";
/// The label that names the clusterctl provider to which an object belongs.
pub const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";
/// The annotation that names a Certificate. cert-manager writes the CA of the Certificate into the annotated object.
const INJECT: &str = "cert-manager.io/inject-ca-from";
/// The key of the taint on control plane nodes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The source of webhook certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// cert-manager issues the certificates.
    CertManager,
    /// gcm and vmop create their own certificates, and the installation generates certificates for the other programs.
    Own,
}

/// The provider of node networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeNetworkProvider {
    /// vSphere port groups, with DHCP or another source for addresses.
    #[default]
    PortGroups,
    Nsx,
    NetOperator,
}

/// Options for an installation.
#[derive(Clone, Debug)]
pub struct Options {
    pub registries: Registries,
    pub certificates: Certificates,
    pub networks: NodeNetworkProvider,
    /// True if workload cluster nodes can reach ghcr.io.
    pub nodes_pull_images: bool,
    /// The arguments and resources that the administrator has changed.
    pub programs: SettingsByProgram,
}

/// Returns a component's documents as they are applied.
///
/// `pair` is the webhook certificate if neither the program nor cert-manager creates one.
pub fn documents(
    component: &Component,
    documents: &[Value],
    options: &Options,
    pair: Option<&ServingPair>,
) -> Vec<Value> {
    let cert_manager = options.certificates == Certificates::CertManager;
    let documents = documents.iter().filter(|document| cert_manager || !is_of_cert_manager(document));
    let mut documents: Vec<Value> = documents.cloned().collect();
    for document in &mut documents {
        label(document, upstream_label(component));
        if document["kind"] == "Deployment" {
            deploy(document, component, options);
        }
        if !cert_manager {
            trust(document, pair);
        }
    }
    if let (Some(pair), Some(name)) = (pair, secret_name(&documents)) {
        documents.push(secret(component, &name, pair));
    }
    documents
}

/// Returns the CRDs for Layercake's kinds as they are applied.
pub fn definitions(definitions: &[Value], certificates: Certificates) -> Vec<Value> {
    let mut definitions = definitions.to_vec();
    for definition in &mut definitions {
        label(definition, None);
        if certificates == Certificates::Own {
            trust(definition, None);
        }
    }
    definitions
}

/// Returns true if cert-manager serves the document's kind.
fn is_of_cert_manager(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("cert-manager.io/"))
}

/// Returns the names that a component's manifests request from cert-manager for the webhook certificate. Empty if the
/// component doesn't have webhooks.
pub fn dns_names(documents: &[Value]) -> Vec<String> {
    let certificate = documents.iter().find(|document| document["kind"] == "Certificate");
    let names = certificate.and_then(|certificate| certificate.pointer("/spec/dnsNames")?.as_array());
    names.into_iter().flatten().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// Returns the name of the Secret from which the Deployment mounts its webhook certificate, or `None` if it doesn't
/// mount a Secret.
pub fn secret_name(documents: &[Value]) -> Option<String> {
    let deployment = documents.iter().find(|document| document["kind"] == "Deployment")?;
    let volumes = deployment.pointer("/spec/template/spec/volumes")?.as_array()?;
    let name = volumes.iter().find_map(|volume| volume.pointer("/secret/secretName")?.as_str());
    name.map(str::to_owned)
}

/// Returns the provider label for a component that clusterctl can upgrade and delete, or `None` for Layercake's own
/// components.
fn upstream_label(component: &Component) -> Option<&str> {
    component.provider_label.filter(|_| component.is_upstream())
}

/// Adds the labels by which `uninstall` and clusterctl find an object.
fn label(document: &mut Value, provider: Option<&str>) {
    let Some(metadata) = document["metadata"].as_object_mut() else { return };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    labels[MANAGED_BY.0] = MANAGED_BY.1.into();
    if let Some(provider) = provider {
        labels[CLUSTERCTL_LABEL] = "".into();
        labels[PROVIDER_LABEL] = provider.into();
    }
}

fn deploy(deployment: &mut Value, component: &Component, options: &Options) {
    deployment["metadata"]["labels"][VERSION_LABEL] = component.tag(&options.registries).into();
    let pod = &mut deployment["spec"]["template"]["spec"];
    tolerate_control_plane(pod);
    if options.certificates == Certificates::Own && !component.is_upstream() {
        without_mounted_certificate(pod);
    }
    let container = &mut pod["containers"][0];
    if component.is_upstream() {
        component.memory.bound(container);
    }
    container["image"] = component.image_reference(&options.registries).into();
    container["imagePullPolicy"] = "IfNotPresent".into();
    if let Some(args) = container["args"].as_array_mut() {
        args.extend(arguments(component, options).into_iter().map(Value::from));
    }
    if let Some(settings) = options.programs.get(component.name) {
        settings.apply(container);
    }
    if component.uses_guest_proxy() {
        guest_proxy::add(pod, &options.registries, options.programs.get(guest_proxy::CONTAINER));
    }
}

/// Returns additional arguments for an installation, which follow the manifest arguments. If a flag is repeated, the
/// last one takes effect.
fn arguments(component: &Component, options: &Options) -> Vec<&'static str> {
    match component.name {
        // Unused ClusterClasses don't cost anything.
        "cluster-api" | "kubeadm-control-plane" => vec!["--feature-gates=ClusterTopology=true"],
        name => arguments_of_site(name, options.networks, options.nodes_pull_images),
    }
}

/// Returns the site-specific arguments for one of Layercake's programs, to be added after the arguments in its manifest.
pub fn arguments_of_site(
    program: &str,
    networks: NodeNetworkProvider,
    nodes_pull_images: bool,
) -> Vec<&'static str> {
    let mut arguments = match (program, networks) {
        ("gcm", NodeNetworkProvider::Nsx) => vec!["--virtual-ip=none"],
        ("capw", NodeNetworkProvider::Nsx) => vec!["--network-provider=NSXT"],
        ("capw", NodeNetworkProvider::NetOperator) => vec!["--network-provider=VSPHERE_NETWORK"],
        _ => Vec::new(),
    };
    if program == "gcm" && nodes_pull_images {
        arguments.push(PULLS_IMAGES);
    }
    arguments
}

/// Adds a toleration for control plane nodes if it is missing, as in the IPAM provider's manifests. A management
/// cluster might not have any other nodes.
fn tolerate_control_plane(pod: &mut Value) {
    let Some(pod) = pod.as_object_mut() else { return };
    let tolerations = pod.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    if !tolerations.iter().any(|toleration| toleration["key"] == CONTROL_PLANE) {
        tolerations.push(json!({ "key": CONTROL_PLANE, "effect": "NoSchedule" }));
    }
}

/// Removes the mounted certificate, so that the program creates one.
fn without_mounted_certificate(pod: &mut Value) {
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("volumes");
    }
    if let Some(container) = pod["containers"][0].as_object_mut() {
        container.remove("volumeMounts");
    }
}

/// Makes the API server trust the CA in `pair` when it calls a webhook. Without a `pair`, only removes the cert-manager
/// annotation.
fn trust(document: &mut Value, pair: Option<&ServingPair>) {
    if let Some(annotations) = document.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(INJECT);
        if annotations.is_empty()
            && let Some(metadata) = document["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    let Some(pair) = pair else { return };
    let bundle = Value::from(base64(&pair.authority));
    for webhook in document.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = bundle.clone();
    }
    if let Some(config) = document.pointer_mut("/spec/conversion/webhook/clientConfig") {
        config["caBundle"] = bundle;
    }
}

fn secret(component: &Component, name: &str, pair: &ServingPair) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": name, "namespace": component.namespace },
        "stringData": { "ca.crt": pair.authority, "tls.crt": pair.certificate, "tls.key": *pair.key },
    });
    label(&mut secret, upstream_label(component));
    secret
}

/// Returns a component's entry for clusterctl's inventory, so that `clusterctl upgrade`, `move` and `describe` find the
/// component. Returns `None` for Layercake's own components.
pub fn inventory_entry(component: &Component) -> Option<Value> {
    let ManifestSource::Upstream { provider: (name, kind), .. } = component.source else { return None };
    let label_value = upstream_label(component)?;
    let mut entry = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {
            "name": label_value, "namespace": component.namespace,
            "labels": { "clusterctl.cluster.x-k8s.io/core": "inventory" },
        },
        "providerName": name, "type": kind, "version": component.image.tag,
    });
    label(&mut entry, Some(label_value));
    Some(entry)
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
