//! Creates the cluster objects that `kubeadm init` creates, except for the first Node.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kit::objects::Objects;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::control_plane::ADMINS;
use super::failure::{Failure, Reason};
use super::kubeadm::{BootstrapToken, ClusterConfiguration, Documents, token_parts};
use crate::kubeadm_images::minor;

/// The default group for joining nodes' bootstrap tokens.
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const TOKEN_LIFE: Duration = Duration::from_hours(24);

/// Returns an RBAC reference to a `Group`, `User`, `Role` or `ClusterRole`.
fn rbac_reference(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

fn bind(role: &str, subject: &Value) -> Value {
    json!({ "roleRef": rbac_reference("ClusterRole", role), "subjects": [subject] })
}

fn bind_group(role: &str, group: &str) -> Value {
    bind(role, &rbac_reference("Group", group))
}

/// Applies objects with kubeadm's field manager.
pub(super) struct ObjectWriter(pub(super) Client);

impl ObjectWriter {
    pub(super) async fn cluster<K>(&self, name: &str, content: Value) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        self.write::<K>(name, content).await
    }

    pub(super) async fn namespaced<K>(
        &self,
        namespace: &str,
        name: &str,
        mut content: Value,
    ) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        content["metadata"]["namespace"] = json!(namespace);
        self.write::<K>(name, content).await
    }

    async fn write<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        mut content: Value,
    ) -> Result<(), Failure> {
        content["apiVersion"] = json!(K::api_version(&()));
        content["kind"] = json!(K::kind(&()));
        content["metadata"]["name"] = json!(name);
        let applied = Objects::new(&self.0).managed_by("kubeadm").apply(&content).await;
        applied.map(drop).map_err(|error| Failure::new(Reason::ApiServer, error.to_string()))
    }

    /// Allows subjects to read one ConfigMap.
    async fn readable(
        &self,
        namespace: &str,
        role: &str,
        config_map: &str,
        subjects: Value,
    ) -> Result<(), Failure> {
        let reading = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config_map] });
        self.namespaced::<Role>(namespace, role, json!({ "rules": [reading] })).await?;
        let binding = json!({ "roleRef": rbac_reference("Role", role), "subjects": subjects });
        self.namespaced::<RoleBinding>(namespace, role, binding).await
    }

    /// Binds the administrators' group to cluster-admin. Until then, the admin kubeconfig doesn't have any rights.
    pub(super) async fn admins(&self) -> Result<(), Failure> {
        self.cluster::<ClusterRoleBinding>(ADMINS, bind_group("cluster-admin", ADMINS)).await
    }

    /// Publishes the configuration that joining nodes and Cluster API read.
    pub(super) async fn configuration(&self, documents: &Documents) -> Result<(), Failure> {
        let Some((cluster, document)) = &documents.cluster else { return Ok(()) };
        let nodes = json!([rbac_reference("Group", JOINING), rbac_reference("Group", "system:nodes")]);
        let text = yaml(&defaulted(cluster, document.clone()))?;
        self.namespaced::<ConfigMap>(
            "kube-system",
            "kubeadm-config",
            json!({ "data": { "ClusterConfiguration": text } }),
        )
        .await?;
        self.readable("kube-system", "kubeadm:nodes-kubeadm-config", "kubeadm-config", nodes.clone()).await?;

        let kubelet = documents.components.get("KubeletConfiguration").cloned();
        let kubelet = yaml(&kubelet.unwrap_or_else(|| kubelet_configuration(cluster)))?;
        let name = kubelet_config_name(&cluster.kubernetes_version);
        self.namespaced::<ConfigMap>("kube-system", &name, json!({ "data": { "kubelet": kubelet } })).await?;
        self.readable("kube-system", &format!("kubeadm:{name}"), &name, nodes).await
    }

    /// Creates the objects that nodes need to join: bootstrap tokens, RBAC rules, and `cluster-info` with the
    /// kubeconfig `cluster_info`.
    pub(super) async fn bootstrap(
        &self,
        cluster_info: &str,
        tokens: &[BootstrapToken],
    ) -> Result<(), Failure> {
        for token in tokens {
            self.token(token).await?;
        }
        let get_nodes = json!({ "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["nodes"] }] });
        self.cluster::<ClusterRole>("kubeadm:get-nodes", get_nodes).await?;
        let approve = "system:certificates.k8s.io:certificatesigningrequests";
        for (name, binding) in [
            ("kubeadm:get-nodes", bind_group("kubeadm:get-nodes", JOINING)),
            ("kubeadm:kubelet-bootstrap", bind_group("system:node-bootstrapper", JOINING)),
            ("kubeadm:node-autoapprove-bootstrap", bind_group(&format!("{approve}:nodeclient"), JOINING)),
            (
                "kubeadm:node-autoapprove-certificate-rotation",
                bind_group(&format!("{approve}:selfnodeclient"), "system:nodes"),
            ),
            (
                "kubeadm:apiserver-kubelet-client",
                bind("system:kubelet-api-admin", &rbac_reference("User", "kube-apiserver-kubelet-client")),
            ),
        ] {
            self.cluster::<ClusterRoleBinding>(name, binding).await?;
        }
        self.namespaced::<ConfigMap>(
            "kube-public",
            "cluster-info",
            json!({ "data": { "kubeconfig": cluster_info } }),
        )
        .await?;
        let anonymous = json!([rbac_reference("User", "system:anonymous")]);
        self.readable("kube-public", "kubeadm:bootstrap-signer-clusterinfo", "cluster-info", anonymous).await
    }

    pub(super) async fn token(&self, token: &BootstrapToken) -> Result<(), Failure> {
        let (id, secret) = token_parts(&token.token)?;
        let groups = if token.groups.is_empty() { JOINING.to_owned() } else { token.groups.join(",") };
        let mut data = json!({ "token-id": id, "token-secret": secret, "auth-extra-groups": groups });
        for usage in ["signing", "authentication"] {
            if token.usages.is_empty() || token.usages.iter().any(|wanted| wanted == usage) {
                data[format!("usage-bootstrap-{usage}")] = json!("true");
            }
        }
        if let Some(expiry) = expiry(token)? {
            data["expiration"] = json!(expiry);
        }
        if let Some(description) = &token.description {
            data["description"] = json!(description);
        }
        let content = json!({ "type": "bootstrap.kubernetes.io/token", "stringData": data });
        self.namespaced::<Secret>("kube-system", &format!("bootstrap-token-{id}"), content).await
    }
}

/// Returns the time at which a token expires: `expires`, otherwise after its TTL (default: 24 hours). Returns `None` if
/// the TTL is 0.
fn expiry(token: &BootstrapToken) -> Result<Option<String>, Failure> {
    if let Some(expires) = &token.expires {
        return Ok(Some(expires.clone()));
    }
    let wrong = || Failure::new(Reason::KubeadmConfig, "a bootstrap token's ttl is no duration");
    let life = match token.ttl.as_deref() {
        None => SignedDuration::try_from(TOKEN_LIFE).map_err(|_| wrong())?,
        Some(ttl) => ttl.parse::<SignedDuration>().map_err(|_| wrong())?,
    };
    let end = Timestamp::now().checked_add(life).map_err(|_| wrong())?;
    Ok((!life.is_zero()).then(|| end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// Returns the name of the kubelet ConfigMap. Up to Kubernetes 1.23, it includes the minor version.
pub(super) fn kubelet_config_name(version: &str) -> String {
    match minor(version) {
        old @ ..24 => format!("kubelet-config-1.{old}"),
        _ => "kubelet-config".to_owned(),
    }
}

fn kubelet_configuration(cluster: &ClusterConfiguration) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": true } },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": "systemd",
        "clusterDomain": cluster.dns_domain(),
        "rotateCertificates": true,
        "staticPodPath": "/etc/kubernetes/manifests",
    })
}

/// Returns the ClusterConfiguration document with kubeadm's defaults for missing values.
fn defaulted(cluster: &ClusterConfiguration, mut document: Value) -> Value {
    let mut default = |path: &str, key: &str, value: Value| {
        if let Some(Value::Object(map)) = document.pointer_mut(path)
            && map.get(key).is_none_or(|own| own.is_null() || own == "")
        {
            map.insert(key.to_owned(), value);
        }
    };
    default("", "certificatesDir", json!(cluster.certificates_dir()));
    default("", "clusterName", json!(cluster.cluster_name()));
    default("", "imageRepository", json!(cluster.image_repository()));
    for key in ["apiServer", "controllerManager", "dns", "etcd", "networking", "scheduler"] {
        default("", key, json!({}));
    }
    default("/etcd", "local", json!({}));
    default("/etcd/local", "dataDir", json!(cluster.etcd_data_dir()));
    default("/networking", "dnsDomain", json!(cluster.dns_domain()));
    default("/networking", "serviceSubnet", json!(cluster.service_subnet()));
    document
}

fn yaml(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::host("write YAML", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_completed_and_not_changed() {
        let given = json!({ "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.33.0",
            "networking": { "serviceSubnet": "198.51.100.0/12" }, "etcd": { "local": { "imageTag": "x" } }, "clusterName": "" });
        let cluster: ClusterConfiguration = serde_json::from_value(given.clone()).unwrap();
        let full = defaulted(&cluster, given);
        assert_eq!(
            full["networking"],
            json!({ "serviceSubnet": "198.51.100.0/12", "dnsDomain": "cluster.local" })
        );
        assert_eq!(full["etcd"]["local"], json!({ "imageTag": "x", "dataDir": "/var/lib/etcd" }));
        assert_eq!(full["clusterName"], "kubernetes");
        let back: Value = serde_saphyr::from_str(&yaml(&full).unwrap()).unwrap();
        assert_eq!(back, full);
    }

    #[test]
    fn tokens_end() {
        let token =
            |ttl: Option<&str>| BootstrapToken { ttl: ttl.map(str::to_owned), ..BootstrapToken::default() };
        assert!(expiry(&token(None)).unwrap().is_some());
        assert_eq!(expiry(&token(Some("0s"))), Ok(None));
        assert!(expiry(&token(Some("15m0s"))).unwrap().unwrap().ends_with('Z'));
        assert!(expiry(&token(Some("soon"))).is_err());
        assert_eq!(kubelet_config_name("v1.23.8+vmware.3"), "kubelet-config-1.23");
    }
}
