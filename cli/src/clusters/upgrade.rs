//! `layercake upgrade`: another release.

use anyhow::Result;
use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::owners::Field;
use super::{Change, read, until_interrupted};
use crate::args::Upgrade;
use crate::exit::ExitStatus;
use crate::target::Target;

/// The manager of the fields that the command changes.
const MANAGER: &str = "layercake-upgrade";

/// The name of a release below a group of nodes, in `managedFields`.
const RELEASE: [&str; 3] = ["f:tkr", "f:reference", "f:name"];

/// Upgrades a cluster as the command line asks.
pub async fn upgrade(args: Upgrade) -> ExitStatus {
    let begun = format!("Interrupted. If {} was changed, its upgrade continues.", args.name);
    let work = args.change.target.with_change(None, async |target| run(target, &args).await);
    until_interrupted(&args.change.target, &begun, work).await
}

async fn run(target: &Target, args: &Upgrade) -> Result<ExitStatus> {
    let cluster = read(target, &args.name).await?;
    let Upgrade { name, release, .. } = args;
    let from =
        cluster.spec.topology.control_plane.tkr.as_ref().and_then(|tkr| tkr.name()).unwrap_or("its release");
    let text = format!("{}/{name}: from {from} to {release}", target.namespace);
    let (fields, operations) = (fields(&cluster), operations(&cluster, release, args.in_steps));
    let change = Change { cluster: &cluster, manager: MANAGER, fields, operations, text };
    change.make(target, &args.change).await
}

/// The pools that name a release of their own, with their places.
fn pools(cluster: &TanzuKubernetesCluster) -> impl Iterator<Item = (usize, &str)> {
    let pools = cluster.spec.topology.node_pools.iter().enumerate();
    pools.filter(|(_, pool)| pool.tkr.is_some()).map(|(at, pool)| (at, pool.name.as_str()))
}

fn fields(cluster: &TanzuKubernetesCluster) -> Vec<Field> {
    let control_plane: Vec<_> = std::iter::once("f:controlPlane").chain(RELEASE).collect();
    let control_plane = Field::of_topology(&control_plane, "controlPlane.tkr.reference.name");
    let pools = pools(cluster).map(|(_, name)| Field::of_pool(name, &RELEASE, "tkr.reference.name"));
    std::iter::once(control_plane).chain(pools).collect()
}

fn operations(cluster: &TanzuKubernetesCluster, release: &str, in_steps: bool) -> Vec<Value> {
    let tkr = json!({"reference": {"name": release}});
    let add = |path: String, value: &Value| json!({"op": "add", "path": path, "value": value});
    let mut operations = Vec::new();
    if in_steps {
        if cluster.annotations().is_empty() {
            operations.push(add("/metadata/annotations".to_owned(), &json!({})));
        }
        let key = annotation::UPGRADE_IN_STEPS.replace('/', "~1");
        operations.push(add(format!("/metadata/annotations/{key}"), &json!("true")));
    }
    operations.push(add("/spec/topology/controlPlane/tkr".to_owned(), &tkr));
    for (at, name) in pools(cluster) {
        let path = format!("/spec/topology/nodePools/{at}");
        operations.push(json!({"op": "test", "path": format!("{path}/name"), "value": name}));
        operations.push(add(format!("{path}/tkr"), &tkr));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_each_group_that_names_one_is_changed() {
        let cluster: TanzuKubernetesCluster = serde_json::from_value(json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster", "metadata": {"name": "c"},
            "spec": {"topology": {"nodePools": [{"name": "a"}, {"name": "b", "tkr": {"reference": {"name": "old"}}}]}},
        }))
        .unwrap();
        let tkr = json!({"reference": {"name": "new"}});
        assert_eq!(
            operations(&cluster, "new", true),
            [
                json!({"op": "add", "path": "/metadata/annotations", "value": {}}),
                json!({
                    "op": "add",
                    "path": "/metadata/annotations/run.tanzu.vmware.com~1upgrade-in-steps",
                    "value": "true",
                }),
                json!({"op": "add", "path": "/spec/topology/controlPlane/tkr", "value": tkr}),
                json!({"op": "test", "path": "/spec/topology/nodePools/1/name", "value": "b"}),
                json!({"op": "add", "path": "/spec/topology/nodePools/1/tkr", "value": tkr}),
            ]
        );
        let paths: Vec<_> = fields(&cluster).into_iter().map(|field| field.path).collect();
        assert_eq!(
            paths,
            [
                "spec.topology.controlPlane.tkr.reference.name",
                "spec.topology.nodePools[b].tkr.reference.name"
            ]
        );
    }
}
