//! The add-ons in the OVF properties of VMware's node images.
//!
//! vSphere 7 images contain manifests. The manifests here replace Antrea and Calico with a ConfigMap and a DaemonSet
//! that configures the container network on its node. vSphere 8 images contain Carvel Packages, in the format of
//! VMware's published image builder: a Package, its PackageMetadata and the default configuration. A cluster without
//! kapp-controller doesn't serve these kinds.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

/// The image repository in VMware's node images.
pub const REPOSITORY: &str = "localhost:5000/vmware.io";

/// The add-ons in the images for one minor release, which also determines the add-on versions.
#[derive(Clone, Copy, Debug)]
pub struct Addons {
    minor: u64,
}

impl Addons {
    /// Returns the add-ons for Kubernetes 1.`minor`.
    pub fn of(minor: u64) -> Self {
        Self { minor }
    }

    /// Returns the OVF properties (key and value) that contain manifests, for vSphere 7 images.
    pub fn manifests(self) -> Vec<(&'static str, String)> {
        [
            ("vmware-system.guest.kubernetes.addons.antrea", "antrea", "antrea-agent"),
            ("vmware-system.guest.kubernetes.addons.antrea-nsx-routed", "antrea", "antrea-agent"),
            ("vmware-system.guest.kubernetes.addons.calico", "calico", "calico-node"),
        ]
        .map(|(key, name, agent)| (key, self.inline(name, &self.manifest(name, agent))))
        .to_vec()
    }

    /// Returns the OVF properties (key and value) that contain Packages, for vSphere 8 images.
    pub fn packages(self) -> Vec<(&'static str, String)> {
        [
            ("vmware-system.guest.kubernetes.addons.antrea", "antrea", Some(("cni", "AntreaConfig"))),
            ("vmware-system.guest.kubernetes.addons.calico", "calico", Some(("cni", "CalicoConfig"))),
            ("vmware-system.guest.kubernetes.addons.metrics-server", "metrics-server", None),
            (
                "vmware-system.guest.kubernetes.addons.vsphere-pv-csi",
                "vsphere-pv-csi",
                Some(("csi", "VSphereCSIConfig")),
            ),
        ]
        .map(|(key, name, config)| (key, self.inline(name, &self.package(name, config))))
        .to_vec()
    }

    /// Returns the container images for the Antrea and Calico DaemonSets.
    pub fn container_images(self) -> impl Iterator<Item = String> {
        [("antrea", "antrea-agent"), ("calico", "calico-node")]
            .into_iter()
            .map(move |(name, agent)| self.image(name, agent))
    }

    /// Returns the Package names, including their versions.
    pub fn package_names(self) -> impl Iterator<Item = String> {
        ["antrea", "calico", "metrics-server", "vsphere-pv-csi"]
            .into_iter()
            .map(move |name| format!("{name}.tanzu.vmware.com.{}", self.version()))
    }

    fn version(self) -> String {
        format!("1.{}.0+vmware.1-tkg.1", self.minor)
    }

    fn image(self, name: &str, agent: &str) -> String {
        format!("{REPOSITORY}/{name}/{agent}:v1.{}.0_vmware.1", self.minor)
    }

    fn inline(self, name: &str, text: &str) -> String {
        inline(name, &format!("v{}", self.version()), text)
    }

    fn package(self, name: &str, config: Option<(&str, &str)>) -> String {
        let (full, version) = (format!("{name}.tanzu.vmware.com"), self.version());
        let config = config.map(|(group, kind)| {
            format!("---\napiVersion: {group}.tanzu.vmware.com/v1alpha1\nkind: {kind}\nmetadata: {{name: {full}}}\nspec: {{}}\n")
        });
        format!(
            "---
apiVersion: data.packaging.carvel.dev/v1alpha1
kind: Package
metadata: {{name: {full}.{version}}}
spec:
  refName: {full}
  version: {version}
  template:
    spec:
      fetch: [{{imgpkgBundle: {{image: {REPOSITORY}/packages/{name}}}}}]
      template: [{{ytt: {{paths: [config/]}}}}, {{kbld: {{paths: ['-', .imgpkg/images.yml]}}}}]
      deploy: [{{kapp: {{}}}}]
---
apiVersion: data.packaging.carvel.dev/v1alpha1
kind: PackageMetadata
metadata: {{name: {full}}}
spec: {{displayName: {name}, providerName: VMware}}
{}",
            config.unwrap_or_default()
        )
    }

    /// Returns the manifests for a container network.
    pub(crate) fn manifest(self, name: &str, agent: &str) -> String {
        let image = self.image(name, agent);
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
}

/// Returns a property value that embeds `text`: JSON with the text as base64-encoded gzip data.
pub fn inline(name: &str, version: &str, text: &str) -> String {
    json!({"name": name, "type": "inline", "version": version, "value": packed(text)}).to_string()
}

/// Compresses `text` with gzip and encodes the result in base64.
pub fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // A write into memory doesn't fail.
    let _ = gzip.write_all(text.as_bytes());
    STANDARD.encode(gzip.finish().unwrap_or_default())
}
