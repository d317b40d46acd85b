//! Keeps kubeadm's add-ons, CoreDNS and kube-proxy, on nodes that contain their container images.
//!
//! kubeadm installs both add-ons. During an upgrade, Cluster API changes their image tags only after it has replaced the whole
//! control plane. Until then, the first nodes of the next release contain only the new images, and pool nodes contain only the
//! old ones.
//!
//! gcm therefore sets the kube-proxy image together with the next release's add-ons, but each kube-proxy Pod stays unchanged
//! until its node is replaced. CoreDNS runs only on nodes of the release that contains its image. A PodDisruptionBudget keeps a
//! drain from evicting the last CoreDNS Pod, unless the control plane uses this release only on the way to a later one.

use std::collections::BTreeMap;

use api::names::label;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kit::guest::{Few, GuestError};
use kube::Resource;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::guest::WorkloadClusterClient;

const NAMESPACE: &str = "kube-system";
/// The name of the CoreDNS Deployment and of its PodDisruptionBudget.
const COREDNS: &str = "coredns";
/// The name of the kube-proxy DaemonSet and of its container.
const KUBE_PROXY: &str = "kube-proxy";
const MANAGER: &str = "gcm/coredns";
/// The maximum size, in bytes, of a Deployment.
const MAX_DEPLOYMENT: usize = 1 << 20;
const MAX_CONTAINERS: usize = 8;

/// The desired state of kubeadm's add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeadmAddons {
    /// The kube-proxy image for new nodes.
    pub kube_proxy: String,
    /// The nodes for CoreDNS, or `None` to leave CoreDNS unchanged.
    pub dns: Option<DnsNodes>,
}

/// The nodes on which CoreDNS should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsNodes {
    /// The CoreDNS image tag that these nodes contain. A CoreDNS with another image is left unchanged.
    pub image_tag: String,
    /// The value of the nodes' label [`label::KUBERNETES_DISTRIBUTION_VERSION`].
    pub release: String,
    /// True if a pool has nodes whose taints CoreDNS tolerates. If false, CoreDNS can run on any node. Otherwise, a drain of the
    /// only control plane node would wait for a CoreDNS Pod on another node that contains the image, and such a node doesn't
    /// exist.
    pub has_workers: bool,
    /// True if workers contain the image or will contain it next. If false, only control plane nodes on their way to a later
    /// release contain the image, and draining the last of these nodes must not wait for another Pod.
    pub stays: bool,
}

/// The fields that gcm reads from the live CoreDNS Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveDns {
    spec: LiveSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveSpec {
    template: LiveTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveTemplate {
    spec: LivePod,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LivePod {
    node_selector: Option<BTreeMap<String, String>>,
    containers: Few<LiveContainer, MAX_CONTAINERS>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LiveContainer {
    name: String,
    image: String,
}

impl LiveDns {
    fn release(&self) -> Option<&str> {
        let selector = self.spec.template.spec.node_selector.as_ref()?;
        selector.get(label::KUBERNETES_DISTRIBUTION_VERSION).map(String::as_str)
    }

    fn image_tag(&self) -> Option<&str> {
        let mut containers = self.spec.template.spec.containers.0.iter();
        let image = &containers.find(|container| container.name == COREDNS)?.image;
        image.rsplit_once(':').map(|(_, tag)| tag)
    }

    /// Returns the release whose nodes CoreDNS should run on, or `None` for any node. A CoreDNS with another image keeps its
    /// release.
    fn wanted_release<'a>(&'a self, nodes: &'a DnsNodes) -> Option<&'a str> {
        if !nodes.has_workers {
            return None;
        }
        let has_image = self.image_tag() == Some(nodes.image_tag.as_str());
        if has_image { Some(&nodes.release) } else { self.release() }
    }

    /// Returns the required change to the PodDisruptionBudget, or `None` if CoreDNS isn't bound to a release and doesn't need a
    /// budget.
    fn budget_change(&self, nodes: &DnsNodes) -> Option<BudgetChange> {
        match (self.release(), self.wanted_release(nodes)) {
            (_, Some(_)) if nodes.stays => Some(BudgetChange::Apply),
            (Some(_), _) => Some(BudgetChange::Delete),
            (None, _) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetChange {
    Apply,
    Delete,
}

impl WorkloadClusterClient {
    /// Sets the kube-proxy image for new nodes and keeps the Pods on old nodes. Returns false if kube-proxy doesn't exist.
    pub async fn bind_kube_proxy(&self, image: &str) -> Result<bool, GuestError> {
        let pod = json!({"containers": [{"name": KUBE_PROXY, "image": image}]});
        let strategy = json!({"type": "OnDelete", "rollingUpdate": null});
        let change = json!({"spec": {"updateStrategy": strategy, "template": {"spec": pod}}});
        let at = Request::new(DaemonSet::url_path(&(), Some(NAMESPACE)));
        match self.server.send(at.patch(KUBE_PROXY, &PatchParams::default(), &Patch::Strategic(change))).await
        {
            Err(GuestError::Refused(refusal)) if refusal.code == 404 => Ok(false),
            patched => patched.map(|()| true),
        }
    }

    /// Binds CoreDNS to these nodes. Does nothing if CoreDNS doesn't exist.
    pub async fn bind_coredns(&self, nodes: &DnsNodes) -> Result<(), GuestError> {
        let at = Request::new(Deployment::url_path(&(), Some(NAMESPACE)));
        let read = at.get(COREDNS, &GetParams::default());
        let Some(live) = self.server.read_if_there::<LiveDns>(read, MAX_DEPLOYMENT).await? else {
            return Ok(());
        };
        let release = live.wanted_release(nodes);
        // Patch the selector last, so that the next round finds the work unfinished after a crash in between.
        match live.budget_change(nodes) {
            Some(BudgetChange::Apply) => self.apply_budget().await?,
            Some(BudgetChange::Delete) => self.delete_budget().await?,
            None => {}
        }
        if release == live.release() {
            return Ok(());
        }
        let selector = json!({label::KUBERNETES_DISTRIBUTION_VERSION: release});
        let change = json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
        self.server.send(at.patch(COREDNS, &PatchParams::default(), &Patch::Merge(change))).await
    }

    /// Applies the PodDisruptionBudget. A conflict with another field manager is an error.
    async fn apply_budget(&self) -> Result<(), GuestError> {
        let apply = PatchParams::apply(MANAGER);
        self.server.send(budgets().patch(COREDNS, &apply, &Patch::Apply(budget()))).await
    }

    async fn delete_budget(&self) -> Result<(), GuestError> {
        match self.server.send(budgets().delete(COREDNS, &DeleteParams::default())).await {
            Err(GuestError::Refused(refusal)) if refusal.code == 404 => Ok(()),
            deleted => deleted,
        }
    }
}

fn budgets() -> Request {
    Request::new(PodDisruptionBudget::url_path(&(), Some(NAMESPACE)))
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": COREDNS, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coredns_follows_its_image_to_the_nodes_that_contain_it() {
        let nodes = |has_workers, stays| DnsNodes {
            image_tag: "v1.13.1_vmware.1".to_owned(),
            release: "new".to_owned(),
            has_workers,
            stays,
        };
        let (apply, delete) = (Some(BudgetChange::Apply), Some(BudgetChange::Delete));
        for (tag, selector, has_workers, stays, expected, budget) in [
            ("v1.13.1_vmware.1", None, true, true, Some("new"), apply),
            ("v1.13.1_vmware.1", Some("old"), true, true, Some("new"), apply),
            ("v1.12.1_vmware.1", Some("old"), true, true, Some("old"), apply),
            ("v1.12.1_vmware.1", None, true, true, None, None),
            ("v1.13.1_vmware.1", Some("new"), false, true, None, delete),
            ("v1.13.1_vmware.1", Some("old"), true, false, Some("new"), delete),
            ("v1.13.1_vmware.1", None, true, false, Some("new"), None),
        ] {
            let selector = selector.map(|release| json!({label::KUBERNETES_DISTRIBUTION_VERSION: release}));
            let containers = json!([{"name": "other"}, {"name": "coredns", "image": format!("localhost:5000/coredns:{tag}")}]);
            let pod = json!({"nodeSelector": selector, "containers": containers});
            let live: LiveDns = serde_json::from_value(json!({"spec": {"template": {"spec": pod}}})).unwrap();
            let nodes = nodes(has_workers, stays);
            assert_eq!(
                (live.wanted_release(&nodes), live.budget_change(&nodes)),
                (expected, budget),
                "{tag} {selector:?} {nodes:?}"
            );
        }
    }
}
