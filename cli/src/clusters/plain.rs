//! Scales Cluster API Clusters without a TanzuKubernetesCluster.

use anyhow::{Context as _, Result};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::{follow, plain_clusters, print_document};
use crate::args::Scale;
use crate::describe::Root;
use crate::follow::report_before_change;
use crate::kube::apply::refusal_of_user;
use crate::local::target::Target;
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::say;

/// Scales the control plane or a node pool in a Cluster's topology.
pub async fn scale(
    target: &Target,
    cluster: &DynamicObject,
    args: &Scale,
    manager: &str,
) -> Result<ExitStatus> {
    let (group, path) = group(cluster, args)?;
    let named = format!("{}/{}", target.namespace, args.name);
    let at = format!("{path}/replicas");
    let now = cluster.data.pointer(&at).and_then(Value::as_i64);
    let from = now.map(|now| format!("from {now} ")).unwrap_or_default();
    let text = format!("{group} of {named}: {from}to {} nodes", args.replicas);
    let operations = json!([
        {"op": "test", "path": "/metadata/uid", "value": cluster.uid()},
        {"op": "add", "path": at, "value": args.replicas},
    ]);
    let change = serde_json::from_value(operations).context("cannot write the change")?;
    let params = PatchParams { dry_run: args.change.dry_run, ..PatchParams::apply(manager) };
    let root = Root::Cluster;
    let report = report_before_change(&target.client, root, &target.namespace, &args.name).await?;
    let changed = plain_clusters(target).patch(&args.name, &params, &Patch::<()>::Json(change)).await;
    changed.map_err(refusal_of_user).with_context(|| format!("cannot change Cluster {named}"))?;
    if args.change.dry_run {
        say!("{text} (dry run: nothing was changed)");
        print_document(target, &args.change.change, Vec::new())?;
        return Ok(ExitStatus::Done);
    }
    say!("{text}");
    follow(target, vec![report], &args.change.change).await
}

/// Returns the name of the node group to scale, and the JSON pointer to the node group in the Cluster.
fn group(cluster: &DynamicObject, args: &Scale) -> Result<(String, String)> {
    let refused = |text: String| Err(ExitStatus::Refused.error(text));
    let name = &args.name;
    let Some(topology) = cluster.data["spec"].get("topology").filter(|topology| topology.is_object()) else {
        let namespace = cluster.namespace().unwrap_or_default();
        return refused(format!(
            "Cluster {name} has no spec.topology. Scale its objects: kubectl scale machinedeployments -n {namespace} -l cluster.x-k8s.io/cluster-name={name} --replicas={}",
            args.replicas
        ));
    };
    if args.control_plane {
        return Ok(("control plane".to_owned(), "/spec/topology/controlPlane".to_owned()));
    }
    let pools = topology["workers"]["machineDeployments"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<_> = pools.iter().filter_map(|pool| pool["name"].as_str()).collect();
    let at = match &args.pool {
        Some(wanted) => pools.iter().position(|pool| pool["name"] == *wanted),
        None => (pools.len() == 1).then_some(0),
    };
    match (at, args.pool.as_deref()) {
        (Some(at), _) => {
            let pool = names.get(at).copied().unwrap_or_default();
            Ok((format!("node pool {pool}"), format!("/spec/topology/workers/machineDeployments/{at}")))
        }
        (None, _) if names.is_empty() => refused(format!(
            "cluster {name} has no node pools. Its control plane is scaled with --control-plane"
        )),
        (None, Some(wanted)) => {
            refused(format!("cluster {name} has no node pool {wanted}. Its pools are {}", names.join(", ")))
        }
        (None, None) => refused(format!(
            "cluster {name} has several node pools. Pass one with --pool: {}",
            names.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn chosen(spec: Value, flags: &[&str]) -> Result<String, String> {
        let args = ["layercake", "scale", "c", "--replicas", "2"].iter().chain(flags);
        let CliCommand::Scale(args) = Cli::parse_from(args).command else { unreachable!() };
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec});
        let cluster = serde_json::from_value(object).unwrap();
        group(&cluster, &args).map(|(_, path)| path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_is_found_in_the_topology() {
        let pools = |names: &[&str]| {
            let pools: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"topology": {"workers": {"machineDeployments": pools}}})
        };
        let pool = |at: usize| Ok(format!("/spec/topology/workers/machineDeployments/{at}"));
        assert_eq!(chosen(pools(&["a"]), &[]), pool(0));
        assert_eq!(chosen(pools(&["a", "b"]), &["--pool", "b"]), pool(1));
        assert_eq!(chosen(pools(&[]), &["--control-plane"]), Ok("/spec/topology/controlPlane".to_owned()));
        assert!(chosen(pools(&["a", "b"]), &[]).unwrap_err().ends_with("Pass one with --pool: a, b"));
        assert!(chosen(pools(&["a"]), &["--pool", "x"]).unwrap_err().contains("no node pool x"));
        assert!(chosen(json!({}), &[]).unwrap_err().contains("has no spec.topology"));
    }
}
