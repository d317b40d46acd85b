//! Limits an instance to some objects, for installations with several instances.

use api::names::label;
use clap::Args;
use kube::{Resource, ResourceExt};

/// The objects that this instance reconciles.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Reconcile only objects in this namespace, and read no others. If left out: all namespaces.
    #[arg(long, value_name = "NAMESPACE", overrides_with = "namespace")]
    pub namespace: Option<String>,
    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value. If left out: all objects.
    #[arg(long, value_name = "VALUE", overrides_with = "watch_filter")]
    pub watch_filter: Option<String>,
}

impl Scope {
    /// Returns true if this instance reconciles the object.
    pub fn has(&self, object: &impl Resource) -> bool {
        let in_namespace =
            self.namespace.as_deref().is_none_or(|wanted| object.meta().namespace.as_deref() == Some(wanted));
        let wanted = self.watch_filter.as_ref().filter(|wanted| !wanted.is_empty());
        in_namespace && wanted.is_none_or(|wanted| object.labels().get(label::WATCH_FILTER) == Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::wcp_machine;

    use super::*;

    #[test]
    fn an_instance_acts_on_its_namespace_and_on_what_bears_its_label() {
        let scope = |namespace: &str, filter: &str| Scope {
            namespace: Some(namespace.to_owned()).filter(|text| !text.is_empty()),
            watch_filter: Some(filter.to_owned()),
        };
        let mut object = wcp_machine();
        assert!(Scope::default().has(&object) && scope("", "").has(&object));
        assert!(scope("ben-test", "").has(&object) && !scope("other", "").has(&object));
        assert!(!scope("", "mine").has(&object));
        object.metadata.labels.get_or_insert_default().insert(label::WATCH_FILTER.into(), "mine".into());
        assert!(scope("ben-test", "mine").has(&object) && !scope("ben-test", "yours").has(&object));
        assert!(Scope::default().has(&object), "without the flag labels do not matter");
    }
}
