//! One object of a cluster's tree, and why it is not ready.

use api::conditions::cause::Cause;
use serde::Serialize;

/// Why an object is not ready, as far as it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Why.
    pub cause: Cause,
    /// Whether the cause is the object's own, and no echo of what the objects below report.
    pub own: bool,
}

/// One object of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TreeNode {
    /// Kind, e.g. `Machine`.
    pub kind: String,
    /// Name; objects of one tree share their namespace.
    pub name: String,
    /// `True`, `False` or `Unknown`, as its Ready (or Available) condition says.
    pub ready: String,
    /// Reason of that condition, or of the first one that is false.
    pub reason: String,
    /// Message of that condition.
    pub message: String,
    /// When that condition last changed, else when the object was made (RFC 3339).
    #[serde(skip)]
    pub since: Option<String>,
    /// Why it is not ready, if it is not.
    #[serde(skip)]
    pub suspicion: Option<Suspicion>,
    /// What it is made of, in the order in which a cluster comes up.
    pub children: Vec<TreeNode>,
}
