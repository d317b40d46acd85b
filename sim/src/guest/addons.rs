//! The add-ons that `kubeadm init` applies and Cluster API upgrades: CoreDNS and kube-proxy.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};

use super::control_plane::service_address;
use super::failure::Failure;
use super::kubeadm::ClusterConfiguration;
use super::objects::ObjectWriter;

const NAMESPACE: &str = "kube-system";
/// The index of the DNS Service's address in the Service CIDR.
const DNS: u32 = 10;

impl ObjectWriter {
    /// Applies the add-ons whose kubeadm phases aren't skipped.
    pub(super) async fn addons(
        &self,
        cluster: &ClusterConfiguration,
        skipped: &[String],
    ) -> Result<(), Failure> {
        let is_skipped = |phase: &str| skipped.iter().any(|skipped| skipped == "addon" || skipped == phase);
        if !is_skipped("addon/coredns") {
            self.coredns(cluster).await?;
        }
        if !is_skipped("addon/kube-proxy") {
            self.kube_proxy(cluster).await?;
        }
        Ok(())
    }

    async fn coredns(&self, cluster: &ClusterConfiguration) -> Result<(), Failure> {
        let address = service_address(cluster.service_subnet(), DNS)?;
        let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "targetPort": port, "protocol": protocol});
        let ports = [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")];
        let selector = json!({"k8s-app": "kube-dns"});
        let corefile = json!({"data": {"Corefile": corefile(cluster.dns_domain())}});
        self.namespaced::<ConfigMap>(NAMESPACE, "coredns", corefile).await?;
        self.namespaced::<ServiceAccount>(NAMESPACE, "coredns", json!({})).await?;
        let reads = json!([
            {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ]);
        self.cluster::<ClusterRole>("system:coredns", json!({"rules": reads})).await?;
        self.cluster::<ClusterRoleBinding>("system:coredns", bind_account("system:coredns", "coredns"))
            .await?;
        let service = json!({"spec": {"clusterIP": address, "ports": ports, "selector": selector}});
        self.namespaced::<Service>(NAMESPACE, "kube-dns", service).await?;
        let tolerations = json!([
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        ]);
        let container = json!({
            "name": "coredns", "image": cluster.image_of("coredns"), "imagePullPolicy": "IfNotPresent",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
        });
        let items = [json!({"key": "Corefile", "path": "Corefile"})];
        let pod = json!({
            "priorityClassName": "system-cluster-critical", "serviceAccountName": "coredns", "dnsPolicy": "Default",
            "tolerations": tolerations, "containers": [container],
            "volumes": [{"name": "config-volume", "configMap": {"name": "coredns", "items": items}}],
        });
        let deployment = json!({
            "metadata": {"labels": selector},
            "spec": {
                "replicas": 2,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
                "selector": {"matchLabels": selector},
                "template": {"metadata": {"labels": selector}, "spec": pod},
            },
        });
        self.namespaced::<Deployment>(NAMESPACE, "coredns", deployment).await
    }

    async fn kube_proxy(&self, cluster: &ClusterConfiguration) -> Result<(), Failure> {
        let configuration = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "clusterCIDR": cluster.networking.pod_subnet,
            "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"},
        });
        let configuration = json!({"data": {"config.conf": configuration.to_string()}});
        self.namespaced::<ConfigMap>(NAMESPACE, "kube-proxy", configuration).await?;
        self.namespaced::<ServiceAccount>(NAMESPACE, "kube-proxy", json!({})).await?;
        let binding = bind_account("system:node-proxier", "kube-proxy");
        self.cluster::<ClusterRoleBinding>("kubeadm:node-proxier", binding).await?;
        let labels = json!({"k8s-app": "kube-proxy"});
        let container = json!({
            "name": "kube-proxy", "image": cluster.image_of("kube-proxy"), "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"],
            "volumeMounts": [{"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"}],
        });
        let pod = json!({
            "priorityClassName": "system-node-critical", "serviceAccountName": "kube-proxy", "hostNetwork": true,
            "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}],
            "containers": [container], "volumes": [{"name": "kube-proxy", "configMap": {"name": "kube-proxy"}}],
        });
        let set = json!({
            "metadata": {"labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        self.namespaced::<DaemonSet>(NAMESPACE, "kube-proxy", set).await
    }
}

fn bind_account(role: &str, account: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    })
}

/// Returns CoreDNS's configuration with kubeadm's default plugins. Cluster API migrates the configuration by plugin name.
fn corefile(domain: &str) -> String {
    format!(
        ".:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 30
    loop
    reload
    loadbalance
}}
"
    )
}
