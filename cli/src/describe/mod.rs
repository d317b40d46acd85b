//! `layercake describe`: shows a cluster's or VM's objects, and the first cause if it isn't ready.

pub mod cause;
pub mod cluster_view;
pub mod gather;
pub mod limits;
pub mod next;
pub mod node;
pub mod object;
pub mod pause;
pub mod print;
pub mod root;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod words;

use anyhow::{Result, bail};
use api::conditions::cause::one_line;
use jiff::Timestamp;
use kube::Client;
use serde::Serialize;

pub use cause::Blocking;
use gather::Gathered;
pub use limits::Limit;
pub use node::TreeNode;
pub use root::Root;
use tree::Tree;

/// The output of `describe`: the first blocking cause, the cluster's limits, and the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The object that everything else waits for, or `None` if the root is ready.
    pub blocking: Option<Blocking>,
    /// The reason for the pause, and the command that ends it. `None` if the cluster isn't paused. A paused cluster
    /// isn't changed or repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The optional parts that the cluster lacks.
    pub limits: Vec<Limit>,
    /// The kinds that the user isn't allowed to read. An object of one of these kinds may be what blocks the root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<&'static str>,
    /// The tree, from the root down to the vSphere VMs.
    pub tree: TreeNode,
}

/// Describes the TanzuKubernetesCluster `namespace/name`.
///
/// # Errors
/// See [`describe_below`].
pub async fn describe(client: &Client, namespace: &str, name: &str) -> Result<Description> {
    describe_below(client, Root::TanzuKubernetesCluster, namespace, name).await
}

/// Describes the object `namespace/name`, which has the root's kind, with everything below it.
///
/// # Errors
/// Returns an error if the object doesn't exist or can't be read.
pub async fn describe_below(client: &Client, root: Root, namespace: &str, name: &str) -> Result<Description> {
    let Gathered { objects, unread } = gather::objects(client, root, namespace, name).await?;
    let Some(Tree { root: tree, blocking }) = tree::tree(root, namespace, &objects) else {
        let (kind, resource) = (root.kind(), root.resource());
        bail!("{kind} {namespace}/{name} not found: list them with `kubectl get {resource} -A`");
    };
    let cluster = objects.get("TanzuKubernetesCluster").and_then(|all| all.first());
    let limits = cluster.map(limits::limits).unwrap_or_default();
    let paused = pause::of_objects(&objects);
    let pause = |message: &String| Blocking::pause(root, namespace, name, message.clone());
    let blocking = blocking.map(|cause| paused.as_ref().map_or(cause, pause));
    Ok(Description { blocking, paused, limits, unread, tree })
}

impl Description {
    /// Formats the description as text. `consoles` is true if node consoles can be read on this host.
    pub fn text(&self, consoles: bool) -> String {
        let tree = print::text(self.blocking.as_ref(), &self.tree, Timestamp::now(), None, consoles);
        let unread = match self.unread.as_slice() {
            [] => String::new(),
            kinds => format!("\nNot shown, because you may not read them: {}\n", kinds.join(", ")),
        };
        let paused = match &self.paused {
            // The blocking cause at the top already shows the pause.
            Some(_) if self.blocking.as_ref().is_some_and(Blocking::is_pause) => String::new(),
            Some(paused) => format!("Paused: {}\n\n", one_line(paused)),
            None => String::new(),
        };
        paused + &tree + &unread + &limits::print(&self.limits)
    }
}
