//! The object that everything else waits for. [`api::conditions::tree`] selects it.

use api::conditions::contract;
use api::conditions::tree::{ADD_ON, Branch, Suspect, first_cause};
use api::gcm::remedy;
use serde::Serialize;

use super::root::Root;

/// The object that everything else waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocking {
    /// Kind, namespace and name, such as `VirtualMachine ben-test/test-cluster-control-plane-x7k2p`.
    pub object: String,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

impl Blocking {
    /// Returns the cause for a paused root `namespace/name`. `message` says who paused the root and how to resume it.
    pub fn pause(root: Root, namespace: &str, name: &str, message: String) -> Self {
        let object = format!("{} {namespace}/{name}", root.kind());
        Self { object, reason: contract::PAUSED.to_owned(), message }
    }

    /// Returns true if the cluster is paused.
    pub fn is_pause(&self) -> bool {
        self.reason == contract::PAUSED
    }
}

/// Returns the first blocking cause, or `None` if the root is ready.
pub fn blocking(namespace: &str, root: &Branch<'_>) -> Option<Blocking> {
    if root.is_ready() {
        return None;
    }
    let Suspect { path, cause } = first_cause(std::slice::from_ref(root))?;
    let mut message = cause.message;
    let object = match path[..] {
        // kubectl doesn't know add-ons, but the object above.
        [.., above, add_on] if add_on.kind == ADD_ON => {
            message = format!("{add_on}: {message}");
            above
        }
        [.., object] => object,
        [] => root,
    };
    if root.kind == Root::TanzuKubernetesCluster.kind() && object.kind.starts_with("WCP") {
        message = remedy::with_fields(&message);
    }
    Some(Blocking {
        object: format!("{} {namespace}/{}", object.kind, object.name),
        reason: cause.reason,
        message,
    })
}
