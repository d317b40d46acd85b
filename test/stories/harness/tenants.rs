//! Two tenants: a victim, and a hostile user who tries to access the victim's objects.
//!
//! `mallory` has the user roles in config/, bound only in her own namespace. There, she can also write ConfigMaps and Cluster API
//! infrastructure kinds, as a generous administrator may allow.

use std::path::{Path, PathBuf};

use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::harness::story::{SOON, Story, api_resource};

pub const MALLORY: &str = "mallory";
/// The user roles that are bound in her namespace.
const ROLES: [&str; 5] = [
    "virtualmachine-edit",
    "virtualmachine-view",
    "tanzukubernetescluster-edit",
    "tanzukubernetescluster-view",
    "wcpcluster-view",
];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A story's two tenants.
pub struct Tenants {
    /// The victim: the story's own namespace, accessed as administrator.
    pub victim: Story,
    /// Mallory's namespace, accessed as administrator to check what she created.
    pub hostile: Story,
    /// A client that acts as mallory.
    pub mallory: Client,
}

impl Tenants {
    /// Prepares the namespaces, each with a binding for `class`: the story's own, and `<namespace>-mallory`.
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
        // The API server sees bindings in the order in which they were created.
        let configurations = tenants.mallory_api("ConfigMap");
        story
            .wait_until("mallory has her roles", SOON, async || {
                configurations.list(&ListParams::default()).await.is_ok()
            })
            .await;
        tenants
    }

    /// Grants mallory another Role in her namespace.
    pub async fn grant(&self, name: &str, rules: &Value) {
        let namespace = self.hostile.namespace.as_str();
        let role = json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules,
        });
        for object in [&role, &binding(name, namespace, "Role", name)] {
            self.hostile.apply_object(object).await;
        }
    }

    /// Applies an object as mallory, and returns a rejection.
    pub async fn mallory_applies(&self, object: &Value) -> Result<(), String> {
        layercake::kube::apply::apply(&self.mallory, object).await.map_err(|error| format!("{error:#}"))
    }

    /// Returns the API for a kind in mallory's namespace, as mallory.
    pub fn mallory_api(&self, kind: &str) -> Api<kube::api::DynamicObject> {
        Api::namespaced_with(self.mallory.clone(), &self.hostile.namespace, &api_resource(kind))
    }
}

/// Writes a kubeconfig that impersonates a user who is only in the group `system:authenticated`. It derives from an administrator's
/// kubeconfig.
pub fn kubeconfig_as(administrators: &Path, user: &str, folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(administrators).expect("a kubeconfig");
    let mut document: Value = serde_saphyr::from_str(&text).expect("YAML");
    document["users"][0]["user"]["as"] = user.into();
    let path = folder.join(format!("{user}.kubeconfig"));
    std::fs::write(&path, document.to_string()).expect("written");
    path
}

/// Returns a client for the management cluster that impersonates a user who is only in the group `system:authenticated`.
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
