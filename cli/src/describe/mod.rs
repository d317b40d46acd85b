//! `layercake describe`: the objects of a cluster or of a VM, with the first cause of what is not ready.

pub mod cause;
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

/// What `describe` shows: the first blocking cause, the limits of the cluster, and the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The first object that everything else waits for; none if the cluster is up.
    pub blocking: Option<Blocking>,
    /// The pause that stops all changes and repairs, with the command that ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The parts that the cluster lacks and does not ask for.
    pub limits: Vec<Limit>,
    /// The kinds that the user may not read. The cause can be at an object of these kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<&'static str>,
    /// The cluster, from the TanzuKubernetesCluster down to the vSphere VMs.
    pub tree: TreeNode,
}

/// Describes the TanzuKubernetesCluster `namespace/name`.
///
/// # Errors
/// As [`describe_below`].
pub async fn describe(client: &Client, namespace: &str, name: &str) -> Result<Description> {
    describe_below(client, Root::TanzuKubernetesCluster, namespace, name).await
}

/// Describes the object `namespace/name` of the root's kind with everything below it.
///
/// # Errors
/// If the object does not exist, or if it cannot be read.
pub async fn describe_below(client: &Client, root: Root, namespace: &str, name: &str) -> Result<Description> {
    let Gathered { objects, unread } = gather::objects(client, root, namespace, name).await?;
    let Some(tree) = tree::tree(root, &objects) else {
        let (kind, resource) = (root.kind(), root.resource());
        bail!("{kind} {namespace}/{name} not found: list them with `kubectl get {resource} -A`");
    };
    let cluster = objects.get("TanzuKubernetesCluster").and_then(|all| all.first());
    let limits = cluster.map(limits::limits).unwrap_or_default();
    let paused = pause::of_objects(&objects);
    let pause = |message: &String| Blocking::pause(root, namespace, name, message.clone());
    let blocking = cause::blocking(namespace, &tree);
    let blocking = blocking.map(|cause| paused.as_ref().map_or(cause, pause));
    Ok(Description { blocking, paused, limits, unread, tree })
}

impl Description {
    /// The description as a person reads it; `consoles` says whether nodes have a console that can be read here.
    pub fn text(&self, consoles: bool) -> String {
        let tree = print::text(self.blocking.as_ref(), &self.tree, Timestamp::now(), None, consoles);
        let unread = match self.unread.as_slice() {
            [] => String::new(),
            kinds => format!("\nNot shown, because you may not read them: {}\n", kinds.join(", ")),
        };
        let paused = match &self.paused {
            // The cause at the top says it.
            Some(_) if self.blocking.as_ref().is_some_and(Blocking::is_pause) => String::new(),
            Some(paused) => format!("Paused: {}\n\n", one_line(paused)),
            None => String::new(),
        };
        paused + &tree + &unread + &limits::print(&self.limits)
    }
}
