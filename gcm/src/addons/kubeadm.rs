//! The add-ons of kubeadm, CoreDNS and kube-proxy, on nodes that contain their images.
//!
//! kubeadm applies both. In an upgrade, Cluster API gives them the images of the next release after it has replaced the control plane. The
//! new nodes run before that, and the nodes of pools contain the images of the old release only. So gcm gives kube-proxy its image together
//! with the add-ons of the next release, and a Pod of kube-proxy stays until its node is replaced. CoreDNS runs on nodes whose release has
//! its image, and a drain never evicts its last Pod, unless the control plane goes through this release to a later one.

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

use super::guest::Guest;

const NAMESPACE: &str = "kube-system";
/// The Deployment of CoreDNS, and the budget of its Pods.
const COREDNS: &str = "coredns";
/// The DaemonSet of kube-proxy, and its container.
const KUBE_PROXY: &str = "kube-proxy";
const MANAGER: &str = "gcm/coredns";
/// The most bytes of the Deployment.
const MAX_DEPLOYMENT: usize = 1 << 20;
const MAX_CONTAINERS: usize = 8;

/// The image and the nodes of the add-ons of kubeadm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeadmAddons {
    /// The image of kube-proxy on new nodes.
    pub kube_proxy: String,
    /// The nodes that CoreDNS runs on; none if it stays where it is.
    pub dns: Option<DnsNodes>,
}

/// The nodes that CoreDNS runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsNodes {
    /// The tag of the image of CoreDNS that these nodes contain. CoreDNS with another image stays where it is.
    pub image_tag: String,
    /// The value of their label [`label::KUBERNETES_DISTRIBUTION_VERSION`].
    pub release: String,
    /// True if a pool has nodes that CoreDNS tolerates. If false, CoreDNS may run on every node. Otherwise the drain of the only control
    /// plane node would wait for a Pod on another node with the same image, which does not exist.
    pub has_workers: bool,
    /// True if workers have the image, or get it next. If false, the control plane is on its way to a later release, and only its nodes have
    /// the image: the drain of the last of them must not wait for another Pod.
    pub stays: bool,
}

/// CoreDNS as the guest shows it.
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

    /// The release whose nodes CoreDNS is to run on; none if any node will do.
    fn wanted_release<'a>(&'a self, nodes: &'a DnsNodes) -> Option<&'a str> {
        if !nodes.has_workers {
            return None;
        }
        let has_image = self.image_tag() == Some(nodes.image_tag.as_str());
        if has_image { Some(&nodes.release) } else { self.release() }
    }

    /// Returns the change of the budget. Only the budget of a CoreDNS that gcm bound is gcm's.
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

impl Guest {
    /// Gives the Pods of kube-proxy on new nodes this image, and leaves those on old nodes. Returns false if there is no kube-proxy.
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

    /// Binds CoreDNS to these nodes, if there is a CoreDNS.
    pub async fn bind_coredns(&self, nodes: &DnsNodes) -> Result<(), GuestError> {
        let at = Request::new(Deployment::url_path(&(), Some(NAMESPACE)));
        let read = at.get(COREDNS, &GetParams::default());
        let Some(live) = self.server.read_if_there::<LiveDns>(read, MAX_DEPLOYMENT).await? else {
            return Ok(());
        };
        let release = live.wanted_release(nodes);
        // The selector goes last, so that a crash between both is noticed.
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

    /// Applies the budget, unless another client owns one of this name.
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
