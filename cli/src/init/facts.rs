//! What a cluster has before an installation. Only reads.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use components::catalogue::{COMPONENTS, Component};
use components::render::{MANAGED_BY, PULLS_IMAGES, VERSION_LABEL};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};

/// The namespace of the VM operator, where its configuration is.
pub const OPERATOR_NAMESPACE: &str = "vmware-system-vmop";
/// The provider configuration of the VM operator.
pub const CONFIGURATION: &str = "vsphere.provider.config.vmoperator.vmware.com";
/// The label with which clusterctl and Cluster API's operator mark the objects of a provider.
const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

/// What matters of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version of its API server, such as `v1.36.3`.
    pub kubernetes: String,
    /// Whether the user has all rights.
    pub may_all: bool,
    /// Whether cert-manager is installed.
    pub cert_manager: bool,
    /// The components that are installed, by name.
    pub installed: BTreeMap<&'static str, Installed>,
    /// The vCenter of the provider configuration.
    pub vcenter: Option<String>,
    /// The provider of networks in the provider configuration.
    pub network_provider: Option<String>,
    /// Whether the last installation says that nodes reach ghcr.io.
    pub nodes_pull_images: bool,
    /// How many VirtualMachines there are.
    pub machines: usize,
}

/// A component that is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Its version, if that is known.
    pub version: Option<String>,
    /// The namespace of its Deployment.
    pub namespace: String,
    /// Who installed it.
    pub by: Installer,
}

/// Who installed a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Installer {
    /// `layercake init`.
    Init,
    /// clusterctl.
    Clusterctl,
    /// kubectl or something else.
    #[default]
    Other,
}

impl Facts {
    /// Reads them.
    pub async fn gather(client: &Client) -> Result<Self> {
        let version = client.apiserver_version().await.context("the API server does not answer")?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let is_served = async |name: &str| {
            definitions
                .get_metadata_opt(name)
                .await
                .map(|found| found.is_some())
                .context("cannot read definitions")
        };
        let cert_manager = is_served("certificates.cert-manager.io").await?;
        let inventory = if is_served("providers.clusterctl.cluster.x-k8s.io").await? {
            list(client, "clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider", "providers").await?
        } else {
            Vec::new()
        };
        let machines = if is_served("virtualmachines.vmoperator.vmware.com").await? {
            list(client, "vmoperator.vmware.com", "v1alpha1", "VirtualMachine", "virtualmachines")
                .await?
                .len()
        } else {
            0
        };
        let deployments = Api::<Deployment>::all(client.clone()).list(&ListParams::default()).await;
        let deployments = deployments.context("cannot list Deployments")?.items;
        let configuration = configuration(client).await?;
        let found = |component: &'static Component| {
            Some((component.name, installed(component, &deployments, &inventory)?))
        };
        Ok(Self {
            kubernetes: version.git_version,
            may_all: may_all(client).await?,
            cert_manager,
            installed: COMPONENTS.iter().filter_map(found).collect(),
            nodes_pull_images: deployments.iter().any(pulls_images),
            vcenter: configuration.get("VcPNID").cloned(),
            network_provider: configuration.get("NetworkProvider").cloned(),
            machines,
        })
    }
}

/// The installation of a component, wherever its Deployment is.
fn installed(
    component: &Component,
    deployments: &[Deployment],
    inventory: &[DynamicObject],
) -> Option<Installed> {
    let label = component.provider().map(|provider| provider.label);
    // capw and vmop can be providers of clusterctl, too.
    let label = label.or(match component.name {
        "capw" => Some("infrastructure-wcp"),
        "vmop" => Some("runtime-extension-vm-operator"),
        _ => None,
    });
    let is_it = |deployment: &&Deployment| {
        let named = deployment.name_any() == component.deployment
            && deployment.namespace().as_deref() == Some(component.namespace);
        named
            || label
                .is_some_and(|label| deployment.labels().get(PROVIDER_LABEL).is_some_and(|own| own == label))
    };
    let deployment = deployments.iter().find(is_it)?;
    let entry = inventory.iter().find(|entry| label == Some(entry.name_any().as_str()));
    let is_ours =
        |labels: &BTreeMap<String, String>| labels.get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1);
    let by = match entry {
        _ if is_ours(deployment.labels()) => Installer::Init,
        Some(_) => Installer::Clusterctl,
        None => Installer::Other,
    };
    let entered = entry.and_then(|entry| entry.data["version"].as_str()).map(str::to_owned);
    let labelled = deployment.labels().get(VERSION_LABEL).cloned();
    Some(Installed {
        version: entered.filter(|_| by == Installer::Clusterctl).or(labelled).or_else(|| tag(deployment)),
        namespace: deployment.namespace().unwrap_or_default(),
        by,
    })
}

/// The tag of the image of a Deployment.
fn tag(deployment: &Deployment) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let image = pod.containers.first()?.image.as_deref()?;
    let image = image.split('@').next()?;
    Some(image.rsplit('/').next()?.split_once(':')?.1.to_owned())
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
    let answer = answer.context("cannot ask for the rights of the user")?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Returns true for a gcm with the flag that nodes reach ghcr.io.
fn pulls_images(deployment: &Deployment) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let args = pod.into_iter().flat_map(|pod| &pod.containers).flat_map(|one| one.args.iter().flatten());
    deployment.namespace().as_deref() == Some("vmware-system-tkg")
        && args.into_iter().any(|arg| arg == PULLS_IMAGES)
}

/// The data of the provider configuration, if it exists.
async fn configuration(client: &Client) -> Result<BTreeMap<String, String>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
    let map = maps.get_opt(CONFIGURATION).await.context("cannot read the provider configuration")?;
    Ok(map.and_then(|map| map.data).unwrap_or_default())
}

async fn list(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
) -> Result<Vec<DynamicObject>> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    Ok(api.list(&ListParams::default()).await.with_context(|| format!("cannot list {plural}"))?.items)
}
