//! The add-ons of kubeadm, CoreDNS and kube-proxy, on nodes that contain their images.
//!
//! kubeadm applies both. In an upgrade, Cluster API gives them the images of the next release after it has replaced the control plane. The
//! new nodes run before that, and the nodes of pools contain the images of the old release only. So gcm gives kube-proxy its image together
//! with the add-ons of the next release, and a Pod of kube-proxy stays until its node is replaced. CoreDNS runs on nodes whose release has
//! its image, and a drain never evicts its last Pod.

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
        match (live.release(), release) {
            (_, Some(_)) => self.apply_budget().await?,
            // Only the budget of a CoreDNS that gcm bound is gcm's. The selector goes last, so that a crash between both is noticed.
            (Some(_), None) => self.delete_budget().await?,
            (None, None) => {}
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
        let nodes = |has_workers| DnsNodes {
            image_tag: "v1.13.1_vmware.1".to_owned(),
            release: "new".to_owned(),
            has_workers,
        };
        for (tag, selector, has_workers, expected) in [
            ("v1.13.1_vmware.1", None, true, Some("new")),
            ("v1.13.1_vmware.1", Some("old"), true, Some("new")),
            ("v1.12.1_vmware.1", Some("old"), true, Some("old")),
            ("v1.12.1_vmware.1", None, true, None),
            ("v1.13.1_vmware.1", Some("new"), false, None),
        ] {
            let selector = selector.map(|release| json!({label::KUBERNETES_DISTRIBUTION_VERSION: release}));
            let containers = json!([{"name": "other"}, {"name": "coredns", "image": format!("localhost:5000/coredns:{tag}")}]);
            let pod = json!({"nodeSelector": selector, "containers": containers});
            let live: LiveDns = serde_json::from_value(json!({"spec": {"template": {"spec": pod}}})).unwrap();
            assert_eq!(
                live.wanted_release(&nodes(has_workers)),
                expected,
                "{tag} {selector:?} {has_workers}"
            );
        }
    }
}
