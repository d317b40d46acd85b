//! Reading the objects of one cluster.

use anyhow::{Context, Result};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use super::tree::Objects;

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Group, version and kind of everything in the tree, with how its objects are found.
const KINDS: &[(&str, &str, &str, Lookup)] = &[
    ("run.tanzu.vmware.com", "v1alpha3", "TanzuKubernetesCluster", Lookup::ByName),
    ("cluster.x-k8s.io", "v1beta2", "Cluster", Lookup::ByName),
    ("infrastructure.cluster.vmware.com", "v1beta2", "WCPCluster", Lookup::ByName),
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

/// How the objects of a kind are found.
#[derive(Clone, Copy)]
enum Lookup {
    ByName,
    ByLabel,
    InNamespace,
}

/// Every object of the cluster `namespace/name`.
pub async fn objects(client: &Client, namespace: &str, name: &str) -> Result<Objects> {
    let reads = KINDS.iter().map(|(group, version, kind, lookup)| async move {
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind_of, &plural(kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let read = read(&api, *lookup, name).await;
        let mut items =
            read.with_context(|| format!("cannot read {kind} objects in namespace {namespace}"))?;
        for item in &mut items {
            item.types =
                Some(kube::core::TypeMeta { api_version: kind_of.api_version(), kind: (*kind).to_owned() });
        }
        Ok::<_, anyhow::Error>((*kind, items))
    });
    futures::future::try_join_all(reads).await.map(|kinds| kinds.into_iter().collect())
}

async fn read(api: &Api<DynamicObject>, lookup: Lookup, name: &str) -> kube::Result<Vec<DynamicObject>> {
    match lookup {
        Lookup::ByName => Ok(api.get_opt(name).await?.into_iter().collect()),
        Lookup::ByLabel => {
            Ok(api.list(&ListParams::default().labels(&format!("{CLUSTER_NAME}={name}"))).await?.items)
        }
        Lookup::InNamespace => Ok(api.list(&ListParams::default()).await?.items),
    }
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}
