//! `layercake scale`: changes the number of nodes in a node pool or the control plane.

use anyhow::Result;
use api::gcm::v1alpha3::Topology;
use serde_json::{Value, json};

use super::owners::Field;
use super::{Change, Found, find, plain, until_interrupted};
use crate::args::Scale;
use crate::local::target::Target;
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::say;

/// The field manager for the command's changes.
const MANAGER: &str = "layercake-scale";

/// Runs `layercake scale`.
pub async fn scale(args: Scale) -> ExitStatus {
    let begun = format!("Interrupted. If {} was changed, the change continues.", args.name);
    let work = args.change.target.with_change(None, async |target| run(target, &args).await);
    until_interrupted(&args.change.target, &begun, work).await
}

async fn run(target: &Target, args: &Scale) -> Result<ExitStatus> {
    let cluster = match find(target, &args.name).await? {
        Found::TanzuKubernetesCluster(cluster) => *cluster,
        Found::Plain(cluster) => return plain::scale(target, &cluster, args, MANAGER).await,
    };
    let group = Group::choose(&cluster.spec.topology, args)?;
    let (namespace, name, replicas) = (&target.namespace, &args.name, args.replicas);
    let nodes = group.nodes();
    let text = match (group.replicas(&cluster.spec.topology), target.transient()) {
        (Some(now), Some(_)) => format!("scaling {name} {nodes} from {now} to {replicas}..."),
        (None, Some(_)) => format!("scaling {name} {nodes} to {replicas}..."),
        (Some(now), None) => format!("{group} of {namespace}/{name}: from {now} to {replicas} nodes"),
        (None, None) => format!("{group} of {namespace}/{name}: {replicas} nodes"),
    };
    let (fields, operations) = (vec![group.field()], group.operations(replicas));
    let change = Change { cluster: &cluster, manager: MANAGER, fields, operations, text };
    let status = change.make(target, &args.change).await?;
    let is_followed = !args.change.dry_run && args.change.change.wait.wait;
    if status == ExitStatus::Done && is_followed && target.transient().is_some() {
        say!("scaled {name} {nodes} to {replicas}");
    }
    Ok(status)
}

/// The nodes to scale.
#[derive(Debug, PartialEq, Eq)]
enum Group {
    ControlPlane,
    /// A node pool, with its index in `spec.topology.nodePools`.
    Pool {
        name: String,
        at: usize,
    },
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ControlPlane => f.write_str("control plane"),
            Self::Pool { name, .. } => write!(f, "node pool {name}"),
        }
    }
}

impl Group {
    fn choose(topology: &Topology, args: &Scale) -> Result<Self> {
        if args.control_plane {
            return Ok(Self::ControlPlane);
        }
        let pools: Vec<_> = topology.node_pools.iter().map(|pool| pool.name.as_str()).collect();
        let chosen = match (args.pool.as_deref(), pools.as_slice()) {
            (Some(wanted), pools) => pools.iter().position(|name| *name == wanted),
            (None, [_]) => Some(0),
            (None, _) => None,
        };
        if let Some(at) = chosen {
            return Ok(Self::Pool { name: pools[at].to_owned(), at });
        }
        let name = &args.name;
        Err(ExitStatus::Refused.error(match (&args.pool, pools.as_slice()) {
            (_, []) => {
                format!("cluster {name} has no node pools. Its control plane is scaled with --control-plane")
            }
            (Some(wanted), pools) => {
                format!("cluster {name} has no node pool {wanted}. Its pools are {}", pools.join(", "))
            }
            (None, pools) => {
                format!("cluster {name} has several node pools. Pass one with --pool: {}", pools.join(", "))
            }
        }))
    }

    /// Describes the nodes for users of standalone clusters, which usually have one pool.
    fn nodes(&self) -> &'static str {
        match self {
            Self::ControlPlane => "control plane nodes",
            Self::Pool { .. } => "worker nodes",
        }
    }

    fn path(&self) -> String {
        match self {
            Self::ControlPlane => "/spec/topology/controlPlane".to_owned(),
            Self::Pool { at, .. } => format!("/spec/topology/nodePools/{at}"),
        }
    }

    fn field(&self) -> Field {
        match self {
            Self::ControlPlane => {
                Field::of_topology(&["f:controlPlane", "f:replicas"], "controlPlane.replicas")
            }
            Self::Pool { name, .. } => Field::of_pool(name, &["f:replicas"], "replicas"),
        }
    }

    fn operations(&self, replicas: i32) -> Vec<Value> {
        let path = self.path();
        let mut operations = Vec::new();
        if let Self::Pool { name, .. } = self {
            operations.push(json!({"op": "test", "path": format!("{path}/name"), "value": name}));
        }
        operations.push(json!({"op": "add", "path": format!("{path}/replicas"), "value": replicas}));
        operations
    }

    fn replicas(&self, topology: &Topology) -> Option<i32> {
        match self {
            Self::ControlPlane => topology.control_plane.replicas,
            Self::Pool { at, .. } => topology.node_pools.get(*at)?.replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn chosen(pools: &[&str], flags: &[&str]) -> Result<String, String> {
        let args = ["layercake", "scale", "c", "--replicas", "2"].iter().chain(flags);
        let CliCommand::Scale(args) = Cli::parse_from(args).command else { unreachable!() };
        let pools: Vec<_> = pools.iter().map(|name| json!({"name": name})).collect();
        let topology: Topology = serde_json::from_value(json!({"nodePools": pools})).unwrap();
        let chosen = Group::choose(&topology, &args);
        chosen.map(|group| group.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_pool_needs_no_name_and_several_do() {
        let pool = |at: usize| Ok(format!("/spec/topology/nodePools/{at}"));
        assert_eq!(chosen(&["a"], &[]), pool(0));
        assert_eq!(chosen(&["a", "b"], &["--pool", "b"]), pool(1));
        assert_eq!(chosen(&["a", "b"], &["--control-plane"]), Ok("/spec/topology/controlPlane".to_owned()));
        assert_eq!(
            chosen(&["a", "b"], &[]),
            Err("cluster c has several node pools. Pass one with --pool: a, b".to_owned())
        );
        assert_eq!(
            chosen(&["a"], &["--pool", "x"]),
            Err("cluster c has no node pool x. Its pools are a".to_owned())
        );
        assert!(chosen(&[], &[]).unwrap_err().contains("--control-plane"));
    }
}
