//! Reads the cluster state before an installation, without changing anything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use api::Quantity;
use api::names::VMOP_NAMESPACE;
use api::vmop::{PROVIDER_CONFIGURATION, ProviderConfiguration};
use components::catalogue::{COMPONENTS, Component};
use components::render::{MANAGED_BY, PROVIDER_LABEL, VERSION_LABEL};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};

use super::programs;
use crate::kube::connection::{CLUSTER, KindName, dynamic_api_in, served};

/// The kind that represents a vCenter VM.
pub const VIRTUAL_MACHINE: &str = "VirtualMachine";
/// The API group of Layercake's infrastructure provider.
const INFRASTRUCTURE: &str = "infrastructure.cluster.vmware.com";
/// The kinds whose objects own VMs, folders or networks in vCenter or NSX: group, version, kind, plural.
const OWNERS_OF_VMS: [KindName; 5] = [
    ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesCluster", "tanzukubernetesclusters"),
    ("vmware.com", "v1alpha1", "VirtualNetwork", "virtualnetworks"),
    ("vmware.com", "v1alpha1", "VirtualNetworkInterface", "virtualnetworkinterfaces"),
    ("vmoperator.vmware.com", "v1alpha1", VIRTUAL_MACHINE, "virtualmachines"),
    (
        "vmoperator.vmware.com",
        "v1alpha1",
        "VirtualMachineSetResourcePolicy",
        "virtualmachinesetresourcepolicies",
    ),
];
/// The kind of clusterctl's inventory entries.
const INVENTORY: KindName = ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider", "providers");

/// The cluster state that an installation depends on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The API server's version, such as `v1.36.3`.
    pub kubernetes: String,
    /// True if the user has all rights.
    pub may_all: bool,
    /// True if cert-manager's CRDs exist.
    pub cert_manager: bool,
    /// The installed components by name.
    pub installed: BTreeMap<&'static str, InstalledComponent>,
    /// The provider configuration, if it exists.
    pub configuration: Option<ProviderConfiguration>,
    /// The ConfigMap data with the program settings, if it exists.
    pub programs: Option<BTreeMap<String, String>>,
    /// The components whose namespace `init` created, whether or not their Deployments exist.
    pub begun: BTreeSet<&'static str>,
    /// The number of objects with resources in vCenter or NSX, by kind. Kinds without objects are omitted.
    pub remaining: BTreeMap<&'static str, usize>,
    /// The number of clusters with other infrastructure providers.
    pub other_clusters: usize,
    /// The providers in clusterctl's inventory that aren't in [`COMPONENTS`].
    pub other_providers: Vec<String>,
}

/// An installed component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstalledComponent {
    /// The version, or `None` if it is unknown.
    pub version: Option<String>,
    /// The namespace of its Deployment.
    pub namespace: String,
    /// The tool that installed it.
    pub by: Installer,
    /// The container image.
    pub image: String,
    /// The container arguments.
    pub args: Vec<String>,
    /// The container memory limit.
    pub memory_limit: Option<Quantity>,
}

/// A tool that installs components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Installer {
    /// `layercake init`.
    Init,
    Clusterctl,
    /// kubectl or another tool.
    #[default]
    Other,
}

impl Facts {
    /// Reads the state from the cluster.
    pub async fn gather(client: &Client) -> Result<Self> {
        let version = client.apiserver_version().await.context("the API server does not answer")?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let certificates = definitions.get_metadata_opt("certificates.cert-manager.io").await;
        let all = ListParams::default();
        let inventory = dynamic_api_in(client, INVENTORY, None).list(&all).await;
        let inventory = served(inventory).context("cannot list providers")?;
        let mut remaining = BTreeMap::new();
        for owner in OWNERS_OF_VMS {
            let (.., kind, plural) = owner;
            let objects = served(dynamic_api_in(client, owner, None).list_metadata(&all).await);
            let objects = objects.with_context(|| format!("cannot list {plural}"))?;
            if !objects.is_empty() {
                remaining.insert(kind, objects.len());
            }
        }
        let clusters = served(dynamic_api_in(client, CLUSTER, None).list(&all).await);
        let clusters = clusters.context("cannot list clusters")?;
        let (ours, others): (Vec<_>, Vec<_>) = clusters.iter().partition(|cluster| is_ours(cluster));
        if !ours.is_empty() {
            remaining.insert(CLUSTER.2, ours.len());
        }
        let labelled = ListParams::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
        let namespaces = Api::<Namespace>::all(client.clone()).list_metadata(&labelled).await;
        let namespaces = namespaces.context("cannot list namespaces")?.items;
        let is_begun = |component: &&Component| {
            namespaces.iter().any(|namespace| namespace.name_any() == component.namespace)
        };
        let is_component =
            |name: &str| COMPONENTS.iter().any(|component| component.provider_label == Some(name));
        let deployments = Api::<Deployment>::all(client.clone()).list(&all).await;
        let deployments = deployments.context("cannot list Deployments")?.items;
        let found = |component: &'static Component| {
            Some((component.name, read_installed(component, &deployments, &inventory)?))
        };
        Ok(Self {
            kubernetes: version.git_version,
            may_all: may_all(client).await?,
            cert_manager: certificates.context("cannot read definitions")?.is_some(),
            installed: COMPONENTS.iter().filter_map(found).collect(),
            configuration: read_data(client, PROVIDER_CONFIGURATION)
                .await?
                .map(|data| ProviderConfiguration::from_data(&data)),
            programs: read_data(client, programs::CONFIG_MAP).await?,
            begun: COMPONENTS.iter().filter(is_begun).map(|component| component.name).collect(),
            remaining,
            other_clusters: others.len(),
            other_providers: inventory
                .iter()
                .map(ResourceExt::name_any)
                .filter(|name| !is_component(name))
                .collect(),
        })
    }
}

fn is_ours(cluster: &DynamicObject) -> bool {
    cluster.data["spec"]["infrastructureRef"]["apiGroup"] == INFRASTRUCTURE
}

/// Finds an installed component, or returns `None` if it isn't installed. Other tools may have installed it in another
/// namespace.
fn read_installed(
    component: &Component,
    deployments: &[Deployment],
    inventory: &[DynamicObject],
) -> Option<InstalledComponent> {
    let label = component.provider_label;
    let has_label = |deployment: &Deployment| {
        label.is_some() && deployment.labels().get(PROVIDER_LABEL).map(String::as_str) == label
    };
    let is_named = |deployment: &Deployment| {
        deployment.name_any() == component.deployment
            && deployment.namespace().as_deref() == Some(component.namespace)
    };
    // Search by name first: users can add the label to Deployments in their own namespaces.
    let deployment = deployments
        .iter()
        .find(|one| is_named(one))
        .or_else(|| deployments.iter().find(|one| has_label(one)))?;
    let entry = inventory.iter().find(|entry| label == Some(entry.name_any().as_str()));
    let managed_by = deployment.labels().get(MANAGED_BY.0).map(String::as_str);
    let (by, entered) = match entry {
        _ if managed_by == Some(MANAGED_BY.1) && is_named(deployment) => (Installer::Init, None),
        Some(entry) => (Installer::Clusterctl, entry.data["version"].as_str()),
        None => (Installer::Other, None),
    };
    let container = first_container(deployment);
    let image = container.and_then(|container| container.image.clone()).unwrap_or_default();
    let labelled = deployment.labels().get(VERSION_LABEL).map(String::as_str);
    Some(InstalledComponent {
        version: entered.or(labelled).or_else(|| tag(&image)).map(str::to_owned),
        namespace: deployment.namespace().unwrap_or_default(),
        by,
        args: container.and_then(|container| container.args.clone()).unwrap_or_default(),
        memory_limit: container.and_then(memory_limit),
        image,
    })
}

fn first_container(deployment: &Deployment) -> Option<&Container> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()
}

fn memory_limit(container: &Container) -> Option<Quantity> {
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    limits.get("memory").map(|limit| Quantity(limit.0.clone()))
}

/// Returns the tag of an image such as `registry.example.com/gcm:v1`, without the digest. Returns `None` if there isn't
/// a tag.
fn tag(image: &str) -> Option<&str> {
    // A colon before the last slash belongs to the registry's port.
    let name = image.split('@').next()?.rsplit('/').next()?;
    name.split_once(':').map(|(_, tag)| tag)
}

async fn may_all(client: &Client) -> Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some("*".to_owned()),
        group: Some("*".to_owned()),
        resource: Some("*".to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    let answer = answer.context("cannot read the rights of the user")?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Returns a ConfigMap's data from the VM operator's namespace, or `None` if the ConfigMap doesn't exist.
async fn read_data(client: &Client, name: &str) -> Result<Option<BTreeMap<String, String>>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), VMOP_NAMESPACE);
    let map = maps.get_opt(name).await;
    let map = map.with_context(|| format!("cannot read ConfigMap {VMOP_NAMESPACE}/{name}"))?;
    Ok(map.map(|map| map.data.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(namespace: &str, name: &str, labels: &serde_json::Value, image: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": namespace, "labels": labels },
            "spec": { "selector": {}, "template": { "spec": {
                "containers": [{ "name": "manager", "image": image, "args": ["--leader-elect"] }],
            } } },
        }))
        .unwrap()
    }

    fn entry(name: &str, version: &str) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": { "name": name }, "version": version })).unwrap()
    }

    #[test]
    fn components_are_found_with_their_installer() {
        let core = Component::find("cluster-api").unwrap();
        let image = "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2";
        let by_init =
            json!({ "app.kubernetes.io/managed-by": "layercake", "app.kubernetes.io/version": "v1.14.2" });
        let of_provider = json!({ "cluster.x-k8s.io/provider": "cluster-api" });
        let inventory = [entry("cluster-api", "v1.13.0")];
        let read = |deployment: Deployment, inventory: &[DynamicObject]| {
            read_installed(core, &[deployment], inventory)
                .map(|one| (one.by, one.version.unwrap_or_default()))
        };
        let usual = |labels: &serde_json::Value| deployment(core.namespace, core.deployment, labels, image);
        let version = |version: &str| version.to_owned();
        // `init` also writes an inventory entry.
        assert_eq!(read(usual(&by_init), &inventory), Some((Installer::Init, version("v1.14.2"))));
        assert_eq!(read(usual(&of_provider), &inventory), Some((Installer::Clusterctl, version("v1.13.0"))));
        assert_eq!(read(usual(&json!({})), &[]), Some((Installer::Other, version("v1.14.2"))));
        let elsewhere = deployment("capi-operator", "core", &of_provider, "mirror/core@sha256:00");
        assert_eq!(read(elsewhere, &[]), Some((Installer::Other, version(""))));
        let both = json!({ "app.kubernetes.io/managed-by": "layercake", "cluster.x-k8s.io/provider": "cluster-api" });
        let forged = deployment("aa", "core", &both, image);
        assert_eq!(read(forged.clone(), &[]).unwrap().0, Installer::Other);
        let genuine = usual(&of_provider);
        let found = read_installed(core, &[forged, genuine], &inventory).unwrap();
        assert_eq!((found.by, found.namespace.as_str()), (Installer::Clusterctl, core.namespace));
        assert_eq!(read(deployment("default", "web", &json!({}), "nginx"), &inventory), None);
    }

    #[test]
    fn tags_are_read_from_images() {
        assert_eq!(tag("localhost:5000/layercake/gcm:v0.1.0-2"), Some("v0.1.0-2"));
        assert_eq!(tag("localhost:5000/layercake/gcm@sha256:00"), None);
        assert_eq!(tag("gcm:v0.1.0"), Some("v0.1.0"));
        assert_eq!(tag("localhost:5000/layercake/gcm"), None);
        assert_eq!(tag("gcm"), None);
    }
}
