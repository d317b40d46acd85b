//! The bundles that the site's node images carry, in the place where those of vSphere 7 do. The manifests stand for Antrea
//! and Calico: what of them shows on a node, a DaemonSet that configures its container network, and nothing else.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

/// The OVF properties with bundles, key and value.
pub fn properties() -> Vec<(&'static str, String)> {
    [
        ("vmware-system.guest.kubernetes.addons.antrea", "antrea", "antrea-agent"),
        ("vmware-system.guest.kubernetes.addons.antrea-nsx-routed", "antrea", "antrea-agent"),
        ("vmware-system.guest.kubernetes.addons.calico", "calico", "calico-node"),
    ]
    .into_iter()
    .filter_map(|(key, name, agent)| Some((key, inline(name, agent)?)))
    .collect()
}

/// The images of their containers.
pub fn container_images() -> impl Iterator<Item = String> {
    [("antrea", "antrea-agent"), ("calico", "calico-node")]
        .into_iter()
        .map(|(name, agent)| image(name, agent))
}

fn image(name: &str, agent: &str) -> String {
    format!("localhost:5000/vmware.io/{name}/{agent}:v1.0.0_vmware.1")
}

fn inline(name: &str, agent: &str) -> Option<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(manifests(name, agent).as_bytes()).ok()?;
    let value = STANDARD.encode(gzip.finish().ok()?);
    Some(json!({"name": name, "type": "inline", "version": "v1.0.0+vmware.1", "value": value}).to_string())
}

/// The manifests of a container network.
pub(crate) fn manifests(name: &str, agent: &str) -> String {
    let image = image(name, agent);
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}-config, namespace: kube-system, labels: {{app: {name}}}}}
data: {{cni.conflist: '{{\"cniVersion\": \"1.0.0\", \"name\": \"{name}\"}}'}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {agent}, namespace: kube-system, labels: {{app: {name}}}}}
spec:
  selector: {{matchLabels: {{app: {name}, component: {agent}}}}}
  template:
    metadata: {{labels: {{app: {name}, component: {agent}}}}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      tolerations: [{{operator: Exists}}]
      containers:
      - name: {agent}
        image: {image}
        imagePullPolicy: IfNotPresent
        volumeMounts: [{{name: cni, mountPath: /host/etc/cni/net.d}}, {{name: config, mountPath: /etc/{name}}}]
      volumes:
      - {{name: cni, hostPath: {{path: /etc/cni/net.d}}}}
      - {{name: config, configMap: {{name: {name}-config}}}}
"
    )
}
