//! `layercake upgrade`: changes a cluster's release.

use anyhow::Result;
use api::gcm::TanzuKubernetesCluster;
use api::names::annotation;
use gcm::release::version::are_of_one_release;
use gcm::spec::release::current_version;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::owners::Field;
use super::{Change, read, until_interrupted};
use crate::args::Upgrade;
use crate::local::target::Target;
use crate::terminal::exit::ExitStatus;

/// The field manager for the command's changes.
const MANAGER: &str = "layercake-upgrade";

/// The keys of a node group's release name in `managedFields`.
const RELEASE: [&str; 3] = ["f:tkr", "f:reference", "f:name"];

/// The path of the version hint in the spec.
const HINT: &str = "distribution.version";

/// Runs `layercake upgrade`.
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
    let named = format!("{}/{name}", target.namespace);
    let runs = current_version(&cluster).is_some_and(|version| version.matches(release));
    let text = if runs {
        format!("{named}: {from} is release {release} already")
    } else {
        format!("{named}: from {from} to {release}")
    };
    let (fields, operations) = if runs && !args.in_steps {
        (Vec::new(), Vec::new())
    } else {
        (fields(&cluster, release), operations(&cluster, release, args.in_steps))
    };
    let change = Change { cluster: &cluster, manager: MANAGER, fields, operations, text };
    change.make(target, &args.change).await
}

/// Returns the index and name of each pool that sets its own release.
fn pools(cluster: &TanzuKubernetesCluster) -> impl Iterator<Item = (usize, &str)> {
    let pools = cluster.spec.topology.node_pools.iter().enumerate();
    pools.filter(|(_, pool)| pool.tkr.is_some()).map(|(at, pool)| (at, pool.name.as_str()))
}

/// Returns the cluster's version hint if it contradicts the release.
fn other_hint<'a>(cluster: &'a TanzuKubernetesCluster, release: &str) -> Option<&'a str> {
    let hint = cluster.spec.distribution.as_ref()?.version.as_deref()?;
    (!hint.trim().is_empty() && !are_of_one_release(hint, release)).then_some(hint)
}

fn fields(cluster: &TanzuKubernetesCluster, release: &str) -> Vec<Field> {
    let control_plane: Vec<_> = std::iter::once("f:controlPlane").chain(RELEASE).collect();
    let control_plane = Field::of_topology(&control_plane, "controlPlane.tkr.reference.name");
    let pools = pools(cluster).map(|(_, name)| Field::of_pool(name, &RELEASE, "tkr.reference.name"));
    let hint = other_hint(cluster, release).map(|_| Field::of_spec(&["f:distribution", "f:version"], HINT));
    std::iter::once(control_plane).chain(pools).chain(hint).collect()
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
    if other_hint(cluster, release).is_some() {
        operations.push(add("/spec/distribution/version".to_owned(), &json!(release)));
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
        let paths: Vec<_> = fields(&cluster, "new").into_iter().map(|field| field.path).collect();
        assert_eq!(
            paths,
            [
                "spec.topology.controlPlane.tkr.reference.name",
                "spec.topology.nodePools[b].tkr.reference.name"
            ]
        );
    }

    #[test]
    fn a_version_hint_goes_with_the_release() {
        let hinted = |hint: &str| -> TanzuKubernetesCluster {
            let spec = json!({"distribution": {"version": hint}, "topology": {}});
            let object = json!({
                "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster", "metadata": {}, "spec": spec,
            });
            serde_json::from_value(object).unwrap()
        };
        let change = json!({"op": "add", "path": "/spec/distribution/version", "value": "v1.35.1"});
        assert_eq!(operations(&hinted("v1.34"), "v1.35.1", false)[0], change);
        assert_eq!(fields(&hinted("v1.34"), "v1.35.1")[1].path, "spec.distribution.version");
        for fitting in ["v1.35", "1", ""] {
            assert_eq!(operations(&hinted(fitting), "v1.35.1", false).len(), 1, "{fitting}");
        }
    }
}
