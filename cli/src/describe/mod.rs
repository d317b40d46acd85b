//! `layercake describe tkc`: why is this cluster not up yet?

pub mod cause;
pub mod gather;
pub mod limits;
pub mod next;
pub mod node;
pub mod object;
pub mod print;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod words;

use anyhow::{Result, bail};
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

pub use cause::Blocking;
use gather::Gathered;
pub use limits::Limit;
pub use node::TreeNode;

/// What `describe` shows: the first blocking cause, the limits of the cluster, and the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The first object that everything else waits for; none if the cluster is up.
    pub blocking: Option<Blocking>,
    /// The parts that the cluster lacks and does not ask for.
    pub limits: Vec<Limit>,
    /// The kinds that the user may not read. The cause can be at an object of these kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<&'static str>,
    /// The cluster, from the TanzuKubernetesCluster down to the vSphere VMs.
    pub tree: TreeNode,
}

/// Describes the cluster `namespace/name`; fails if there is no such TanzuKubernetesCluster.
pub async fn describe(client: &Client, namespace: &str, name: &str) -> Result<Description> {
    let Gathered { objects, unread } = gather::objects(client, namespace, name).await?;
    let Some(tree) = tree::tree(&objects) else {
        bail!(
            "TanzuKubernetesCluster {namespace}/{name} not found: list the clusters with `kubectl get tkc -A`"
        );
    };
    let cluster = objects.get("TanzuKubernetesCluster").and_then(|all| all.first());
    let limits = cluster.map(limits::limits).unwrap_or_default();
    Ok(Description { blocking: cause::blocking(namespace, &tree), limits, unread, tree })
}

impl Description {
    /// The description as a person reads it; `consoles` says whether nodes have a console that can be read here.
    pub fn text(&self, consoles: bool) -> String {
        let tree = print::text(self.blocking.as_ref(), &self.tree, Timestamp::now(), None, consoles);
        let unread = match self.unread.as_slice() {
            [] => String::new(),
            kinds => format!("\nNot shown, because you may not read them: {}\n", kinds.join(", ")),
        };
        tree + &unread + &limits::print(&self.limits)
    }
}
