//! Reads the objects of one cluster or VM.

use anyhow::{Context, Result};
use api::names::label;
use kit::api_error::is_not_served;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::root::Root;
use super::tree::{Objects, UNREAD};
use crate::kube::connection::not_served;

/// The kinds in the tree: group, version, kind, and how to find the objects.
pub(super) const KINDS: &[(&str, &str, &str, Lookup)] = &[
    ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesCluster", Lookup::ByName),
    ("cluster.x-k8s.io", "v1beta2", "Cluster", Lookup::ByName),
    ("infrastructure.cluster.vmware.com", "v1beta2", "WCPCluster", Lookup::Infrastructure),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineSetResourcePolicy", Lookup::InNamespace),
    ("vmware.com", "v1alpha1", "VirtualNetwork", Lookup::InNamespace),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachineService", Lookup::InNamespace),
    ("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", Lookup::ByLabel),
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment", Lookup::ByLabel),
    ("cluster.x-k8s.io", "v1beta2", "MachineSet", Lookup::ByLabel),
    ("cluster.x-k8s.io", "v1beta2", "Machine", Lookup::ByLabel),
    ("infrastructure.cluster.vmware.com", "v1beta2", "WCPMachine", Lookup::ByLabel),
    ("vmoperator.vmware.com", "v1alpha1", "VirtualMachine", Lookup::ByLabel),
];

/// The way to find a kind's objects.
#[derive(Clone, Copy)]
pub(super) enum Lookup {
    ByName,
    ByLabel,
    /// By label, or by the cluster's name before Cluster API adds the label.
    Infrastructure,
    InNamespace,
}

/// The control plane kind. No user role includes it, because its objects may contain files with secrets.
const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// The objects that were read, and the kinds that could not be read.
#[derive(Debug, Default)]
pub struct Gathered {
    pub objects: Objects,
    /// The kinds that the user isn't allowed to read.
    pub unread: Vec<&'static str>,
}

/// Returns the kinds in a root's tree, including the root's kind, in the format of [`KINDS`].
fn kinds_below(root: Root) -> impl Iterator<Item = (&'static str, &'static str, &'static str, Lookup)> {
    let is_below = move |kind: &str| match root {
        Root::TanzuKubernetesCluster => true,
        Root::Cluster => kind != Root::TanzuKubernetesCluster.kind(),
        Root::VirtualMachine => kind == root.kind(),
    };
    let lookup = move |kind: &str, lookup| if kind == root.kind() { Lookup::ByName } else { lookup };
    let kinds = KINDS.iter().filter(move |(_, _, kind, _)| is_below(kind));
    kinds.map(move |(group, version, kind, found)| (*group, *version, *kind, lookup(kind, *found)))
}

/// Reads the root `namespace/name` and all objects below it, except kinds that the user isn't allowed to read.
///
/// # Errors
/// Returns an error if the user isn't allowed to read the root, or if reading another kind fails for a reason other
/// than missing permission or an unserved kind.
pub async fn objects(client: &Client, root: Root, namespace: &str, name: &str) -> Result<Gathered> {
    let reads = kinds_below(root).map(|(group, version, kind, lookup)| async move {
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind_of, &plural(kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let mut items = match read(&api, lookup, name).await {
            Err(kube::Error::Api(refused)) if refused.code == 403 && kind != root.kind() => {
                return Ok((kind, None));
            }
            // The API server doesn't serve the kind.
            Err(error) if is_not_served(&error) && kind != root.kind() => Vec::new(),
            Err(error) if is_not_served(&error) => {
                return Err(not_served(&format!("does not serve {kind} objects")));
            }
            read => read.with_context(|| format!("cannot read {kind} objects in namespace {namespace}"))?,
        };
        for item in &mut items {
            item.types =
                Some(kube::core::TypeMeta { api_version: kind_of.api_version(), kind: kind.to_owned() });
        }
        Ok::<_, anyhow::Error>((kind, Some(items)))
    });
    let mut gathered = Gathered::default();
    for (kind, items) in futures::future::try_join_all(reads).await? {
        match items {
            Some(items) => _ = gathered.objects.insert(kind, items),
            None => gathered.unread.push(kind),
        }
    }
    if gathered.unread.contains(&CONTROL_PLANE) {
        let stand_in = gathered.objects.get("Cluster").and_then(|all| all.first()).and_then(control_plane);
        gathered.objects.insert(CONTROL_PLANE, stand_in.into_iter().collect());
    }
    Ok(gathered)
}

/// Returns a placeholder for a control plane that the user isn't allowed to read, so that its Machines have a parent.
/// Returns `None` if the Cluster doesn't refer to a control plane.
fn control_plane(cluster: &DynamicObject) -> Option<DynamicObject> {
    let name = cluster.data.pointer("/spec/controlPlaneRef/name")?.as_str()?;
    let object = json!({
        "metadata": {
            "name": name,
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": cluster.name_any(), "uid": "",
            }],
        },
        UNREAD: true,
    });
    serde_json::from_value(object).ok()
}

async fn read(api: &Api<DynamicObject>, lookup: Lookup, name: &str) -> kube::Result<Vec<DynamicObject>> {
    match lookup {
        Lookup::ByName => match api.get(name).await {
            Err(kube::Error::Api(status)) if status.reason == "NotFound" => Ok(Vec::new()),
            found => Ok(vec![found?]),
        },
        Lookup::Infrastructure => {
            // Cluster API labels the object, whatever its name is. Before that, look for an object with the cluster's
            // name.
            let labelled = labelled(api, name).await?;
            if labelled.is_empty() {
                Ok(api.get_opt(name).await?.into_iter().collect())
            } else {
                Ok(labelled)
            }
        }
        Lookup::ByLabel => labelled(api, name).await,
        Lookup::InNamespace => Ok(api.list(&ListParams::default()).await?.items),
    }
}

async fn labelled(api: &Api<DynamicObject>, cluster: &str) -> kube::Result<Vec<DynamicObject>> {
    let of_cluster = ListParams::default().labels(&format!("{}={cluster}", label::CLUSTER_NAME));
    Ok(api.list(&of_cluster).await?.items)
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}
