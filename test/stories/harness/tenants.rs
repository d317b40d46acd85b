//! Two tenants: one whose things are to be safe, and one who tries to reach them.
//!
//! `mallory` has the roles for people that config/ offers, bound in her own namespace alone. Beyond them she writes
//! ConfigMaps and the kinds of Cluster API's infrastructure there, as a generous administrator may let her.

use std::path::{Path, PathBuf};

use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::harness::story::{SOON, Story, api_resource};

/// The hostile user's name.
pub const MALLORY: &str = "mallory";
/// The roles for people that she has, each bound in her namespace.
const ROLES: [&str; 5] = [
    "virtualmachine-edit",
    "virtualmachine-view",
    "tanzukubernetescluster-edit",
    "tanzukubernetescluster-view",
    "wcpcluster-view",
];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The two tenants of a story.
pub struct Tenants {
    /// Whose things are to be safe: the story's own namespace, used with the admin's rights.
    pub victim: Story,
    /// Mallory's namespace, used with the admin's rights: to look at what she made.
    pub hostile: Story,
    /// A client that acts as mallory.
    pub mallory: Client,
}

impl Tenants {
    /// Makes both namespaces, each with a binding of `class`: the story's own, and `<namespace>-mallory`.
    pub async fn prepare(story: &Story, class: &str) -> Self {
        let mut hostile = story.clone();
        hostile.namespace = format!("{}-mallory", story.namespace);
        for tenant in [story, &hostile] {
            tenant.prepare_namespace(class).await;
        }
        let namespace = hostile.namespace.as_str();
        for role in ROLES {
            hostile.apply_object(&binding(role, namespace, "ClusterRole", role)).await;
        }
        let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
        let rules = json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": all},
            {
                "apiGroups": ["infrastructure.cluster.vmware.com"],
                "resources": ["wcpclusters", "wcpmachines", "wcpmachinetemplates"],
                "verbs": all,
            },
        ]);
        let tenants = Self { victim: story.clone(), mallory: act_as(story, MALLORY).await, hostile };
        tenants.grant("mallory-further", &rules).await;
        // The API server learns of bindings in the order in which they were made.
        let configurations = tenants.mallory_api("ConfigMap");
        story
            .wait_until("mallory has her roles", SOON, async || {
                configurations.list(&ListParams::default()).await.is_ok()
            })
            .await;
        tenants
    }

    /// Gives mallory a further Role in her namespace.
    pub async fn grant(&self, name: &str, rules: &Value) {
        let namespace = self.hostile.namespace.as_str();
        let role = json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules,
        });
        for object in [&role, &binding(name, namespace, "Role", name)] {
            self.hostile.apply_object(object).await;
        }
    }

    /// Mallory applies an object; the refusal is the result.
    pub async fn mallory_applies(&self, object: &Value) -> Result<(), String> {
        layercake::apply::apply(&self.mallory, object).await.map_err(|error| format!("{error:#}"))
    }

    /// The API of a kind in mallory's namespace, as mallory.
    pub fn mallory_api(&self, kind: &str) -> Api<kube::api::DynamicObject> {
        Api::namespaced_with(self.mallory.clone(), &self.hostile.namespace, &api_resource(kind))
    }
}

/// Writes a kubeconfig of a cluster's administrator into a folder, for this user, who is in no group but `system:authenticated`.
pub fn kubeconfig_as(administrators: &Path, user: &str, folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(administrators).expect("a kubeconfig");
    let mut document: Value = serde_saphyr::from_str(&text).expect("YAML");
    document["users"][0]["user"]["as"] = user.into();
    let path = folder.join(format!("{user}.kubeconfig"));
    std::fs::write(&path, document.to_string()).expect("written");
    path
}

/// A client of the management API server that acts as this user, who is in no group but `system:authenticated`.
pub async fn act_as(story: &Story, user: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(&story.shared.session.kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
    config.auth_info.impersonate = Some(user.to_owned());
    Client::try_from(config).expect("a client")
}

fn binding(name: &str, namespace: &str, kind: &str, role: &str) -> Value {
    json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}],
    })
}
