//! An object in the tree.

use api::conditions::tree::Suspicion;
use serde::Serialize;

/// An object in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// The kind, such as `Machine`.
    pub kind: String,
    /// The name. All objects in a tree share a namespace.
    pub name: String,
    /// The status of the object's Ready or Available condition: `True`, `False` or `Unknown`.
    pub ready: String,
    /// The reason in the Ready or Available condition, or in the first False condition.
    pub reason: String,
    /// The message in the condition that contains `reason`.
    pub message: String,
    /// The last transition time of the condition that contains `reason`, or the object's creation time if the condition
    /// doesn't contain one (RFC 3339).
    #[serde(skip)]
    pub since: Option<String>,
    /// The suspected cause if the object isn't ready.
    #[serde(skip)]
    pub suspicion: Option<Suspicion>,
    /// The objects below this object, in the order in which a cluster comes up.
    pub children: Vec<TreeNode>,
}
