//! Sample cloud-init data, in the format that Cluster API's kubeadm bootstrap provider writes, with fresh keys.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use pki::{Authority, Validity, generate_key};

use super::certs::pin;
use super::container_images::{ContainerImages, Registry};
use super::disk::Disk;
use super::guest_vm::Programs;
use crate::kubeadm_images::{kubeadm_images, minor};

/// Returns a disk and its temporary folder. Dropping the `TempDir` deletes the disk.
pub(super) fn disk() -> (tempfile::TempDir, Disk) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::at(folder.path().to_owned()).unwrap();
    (folder, disk)
}

/// Returns the programs of a node image, all in one folder.
pub(super) fn programs(folder: &Path) -> Programs {
    Programs {
        etcd: folder.join("etcd"),
        kube_apiserver: folder.join("kube-apiserver"),
        kube_controller_manager: folder.join("kube-controller-manager"),
        kubeadm: folder.join("kubeadm"),
        kubelet: folder.join("kubelet"),
        scripts: Vec::new(),
    }
}

pub(super) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(super) const PKI: &str = "/etc/kubernetes/pki";

/// Returns the container images that a sample of this version needs, including a container network's images.
pub(super) fn images(version: &str) -> ContainerImages {
    let held = kubeadm_images(version)
        .into_iter()
        .chain(crate::vcsim::addons::Addons::of(minor(version)).container_images())
        .collect();
    ContainerImages::new(Arc::new(held), Registry::default())
}

/// A cluster's keys: pairs of a certificate (or public key) and a private key in PEM format.
pub(super) struct Pki {
    pub(super) ca: (String, String),
    etcd: (String, String),
    front_proxy: (String, String),
    pub(super) sa: (String, String),
}

impl Pki {
    /// Generates elliptic-curve keys, which is fast.
    pub(super) fn generate() -> Self {
        let (sa_public, sa_private) = generate_key().unwrap();
        Self {
            ca: authority("kubernetes"),
            etcd: authority("etcd-ca"),
            front_proxy: authority("front-proxy-ca"),
            sa: (sa_public, sa_private.to_string()),
        }
    }

    /// Generates RSA keys in PKCS#1 format with kubeadm. Cluster API uses the same format.
    pub(super) fn rsa(kubeadm: &Path, folder: &Path) -> Self {
        for phase in ["ca", "etcd-ca", "front-proxy-ca", "sa"] {
            let output = std::process::Command::new(kubeadm)
                .args(["init", "phase", "certs", phase, "--cert-dir"])
                .arg(folder)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
        let pair = |name: &str| (read(&format!("{name}.crt")), read(&format!("{name}.key")));
        Self {
            ca: pair("ca"),
            etcd: pair("etcd/ca"),
            front_proxy: pair("front-proxy-ca"),
            sa: (read("sa.pub"), read("sa.key")),
        }
    }

    pub(super) fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (name, (public, private), suffix) in [
            ("ca", &self.ca, "crt"),
            ("etcd/ca", &self.etcd, "crt"),
            ("front-proxy-ca", &self.front_proxy, "crt"),
            ("sa", &self.sa, "pub"),
        ] {
            files.push((format!("{PKI}/{name}.{suffix}"), public.clone()));
            files.push((format!("{PKI}/{name}.key"), private.clone()));
        }
        files
    }
}

fn authority(name: &str) -> (String, String) {
    let authority = Authority::generate(name, Validity::days_from_now(1)).unwrap();
    (authority.certificate().to_owned(), authority.pair().key.to_string())
}

/// The cluster that a node creates or joins.
pub(super) struct Sample {
    pub(super) pki: Pki,
    pub(super) endpoint: String,
    /// The Kubernetes version. Up to 1.30, the kubeadm configuration is v1beta3.
    pub(super) version: &'static str,
}

const NAME: &str = "{{ ds.meta_data.local_hostname }}";
const PROVIDER: &str = "{{ ds.meta_data.provider_id }}";

impl Sample {
    pub(super) fn metadata(name: &str) -> String {
        format!(
            "instance-id: {name}\nlocal-hostname: {name}\nhostname: {name}\nprovider_id: vsphere://uuid-of-{name}\n\
             redact: [userdata, vendordata]\nwait-on-network: {{ipv4: true}}\n"
        )
    }

    fn is_old(&self) -> bool {
        minor(self.version) < 31
    }

    fn header(&self, kind: &str) -> String {
        format!(
            "apiVersion: kubeadm.k8s.io/{}\nkind: {kind}\n",
            if self.is_old() { "v1beta3" } else { "v1beta4" }
        )
    }

    pub(super) fn init(&self) -> String {
        let config = format!(
            "---\n{}clusterName: sample\napiServer: {{}}\ncontrollerManager: {{}}\nscheduler: {{}}\ndns: {{}}\netcd: {{}}\n\
             controlPlaneEndpoint: {}\nkubernetesVersion: {}\nnetworking:\n  dnsDomain: cluster.local\n  \
             podSubnet: 192.0.2.0/16\n  serviceSubnet: 198.51.100.0/12\n---\n{}localAPIEndpoint: {{}}\n{}",
            self.header("ClusterConfiguration"),
            self.endpoint,
            self.version,
            self.header("InitConfiguration"),
            self.registration("null"),
        );
        let command = "kubeadm init --config /run/kubeadm/kubeadm.yaml ";
        cloud_config(&self.pki.files(), "/run/kubeadm/kubeadm.yaml", &config, command)
    }

    pub(super) fn join_control_plane(&self) -> String {
        let config =
            format!("{}controlPlane:\n  localAPIEndpoint: {{}}\n{}", self.join(), self.registration("null"));
        joining(&self.pki.files(), &config)
    }

    pub(super) fn join_worker(&self) -> String {
        let taint = "\n  - effect: NoSchedule\n    key: node.cluster.x-k8s.io/uninitialized";
        joining(&[], &format!("---\n{}{}", self.join(), self.registration(taint)))
    }

    fn join(&self) -> String {
        format!(
            "{}discovery:\n  bootstrapToken:\n    apiServerEndpoint: {}\n    caCertHashes:\n    - {}\n    token: {TOKEN}\n",
            self.header("JoinConfiguration"),
            self.endpoint,
            pin(&self.pki.ca.0).unwrap()
        )
    }

    fn registration(&self, taints: &str) -> String {
        let label = format!(
            "run.tanzu.vmware.com/kubernetesDistributionVersion={}-tkg.1",
            self.version.replace('+', "_")
        );
        let arguments: String = [("provider-id", PROVIDER), ("node-labels", &label)]
            .map(|(name, value)| {
                if self.is_old() {
                    format!("    {name}: '{value}'\n")
                } else {
                    format!("  - name: {name}\n    value: '{value}'\n")
                }
            })
            .concat();
        format!("nodeRegistration:\n  kubeletExtraArgs:\n{arguments}  name: '{NAME}'\n  taints: {taints}\n")
    }
}

fn joining(files: &[(String, String)], config: &str) -> String {
    let path = "/run/kubeadm/kubeadm-join-config.yaml";
    cloud_config(files, path, config, &format!("kubeadm join --config {path} "))
}

fn cloud_config(files: &[(String, String)], path: &str, config: &str, kubeadm: &str) -> String {
    let mut text = "## template: jinja\n#cloud-config\n\nwrite_files:".to_owned();
    for (path, content) in files {
        let mode = if content.contains("PRIVATE KEY") { "0600" } else { "0640" };
        write!(
            text,
            "\n-   path: {path}\n    owner: root:root\n    permissions: '{mode}'\n    content: |\n{}",
            indented(content)
        )
        .unwrap();
    }
    let placeholder = "/run/cluster-api/placeholder";
    write!(
        text,
        "\n-   path: {path}\n    owner: root:root\n    permissions: '0640'\n    content: |\n{}\n-   path: {placeholder}\n    \
         owner: root:root\n    permissions: '0640'\n    content: \"makes the folder\"\nruncmd:\n  - \"hostname \\\"{NAME}\\\"\"\n  \
         - '{kubeadm} && echo success > /run/cluster-api/bootstrap-success.complete'\n",
        indented(config)
    )
    .unwrap();
    text
}

fn indented(text: &str) -> String {
    text.split('\n').map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
}
