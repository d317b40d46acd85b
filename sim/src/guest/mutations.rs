//! Tests that each kind of error in cloud-init data fails with its own reason.
//!
//! The test doesn't run node programs, because these errors are detected before a program starts. Errors that only a
//! live cluster can find, such as a wrong token or a wrong pin, are tested in `story.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plane::StackIdentity;

use super::boot::boot;
use super::disk::Disk;
use super::failure::Reason;
use super::guest_vm::{GuestVm, Programs};
use super::provoked::Provoked;
use super::sample::{self, Pki, Sample};
use crate::addresses::GuestAddress;
use crate::pattern::Patterns;

struct Seed {
    metadata: String,
    userdata: String,
    other: Pki,
}

impl Seed {
    /// Removes a `write_files` entry.
    fn without_file(&mut self, path: &str) {
        let start = self.userdata.find(&format!("-   path: {path}\n")).unwrap();
        let end = self.userdata[start + 1..].find("\n-   path: ").unwrap() + start + 2;
        self.userdata.replace_range(start..end, "");
    }

    fn replace(&mut self, old: &str, new: &str) {
        assert!(self.userdata.contains(old), "{old:?} is not in the sample");
        self.userdata = self.userdata.replace(old, new);
    }

    fn without_metadata(&mut self, key: &str) {
        assert!(self.metadata.contains(key));
        self.metadata = self
            .metadata
            .lines()
            .filter(|line| !line.starts_with(key))
            .fold(String::new(), |all, line| all + line + "\n");
    }

    /// Replaces a file's content with another cluster's file.
    fn exchange_file(&mut self, path: &str) {
        let (_, content) = self.other.files().into_iter().find(|(other, _)| other == path).unwrap();
        let content: String = content.lines().fold(String::new(), |all, line| all + "      " + line + "\n");
        let start = self.userdata.find(&format!("-   path: {path}\n")).unwrap();
        let body = self.userdata[start..].find("content: |\n").unwrap() + start + "content: |\n".len();
        let end = self.userdata[body..].find("-   path: ").unwrap() + body;
        self.userdata.replace_range(body..end, &content);
    }
}

type Mutation = (&'static str, fn(&mut Seed), Reason);

const MUTATIONS: [Mutation; 36] = [
    ("no metadata", |seed| seed.metadata = "null".into(), Reason::Metadata),
    ("metadata without instance-id", |seed| seed.without_metadata("instance-id"), Reason::Metadata),
    ("no user data", |seed| seed.userdata.clear(), Reason::NoUserdata),
    ("redacted user data", |seed| seed.userdata = "---".into(), Reason::UserdataFormat),
    ("no template header", |seed| seed.replace("## template: jinja\n", ""), Reason::KubeadmConfig),
    (
        "a misspelt template header",
        |seed| seed.replace("## template: jinja", "##template: jinja"),
        Reason::UserdataFormat,
    ),
    ("no cloud-config header", |seed| seed.replace("#cloud-config\n", ""), Reason::UserdataFormat),
    ("metadata without provider_id", |seed| seed.without_metadata("provider_id"), Reason::TemplateVariable),
    ("an unset variable", |seed| seed.replace("local_hostname", "local_host_name"), Reason::TemplateVariable),
    ("a broken template", |seed| seed.replace("local_hostname }}", "local_hostname }"), Reason::Template),
    (
        "a tab in the YAML",
        |seed| seed.replace("-   path: /run/kubeadm", "-\tpath:\t/run/kubeadm"),
        Reason::CloudConfig,
    ),
    (
        "a truncated document",
        |seed| seed.userdata.truncate(seed.userdata.find("runcmd:").unwrap()),
        Reason::KubeadmNotRun,
    ),
    ("an unknown key", |seed| seed.replace("\nruncmd:", "\nruncmds:"), Reason::UnknownKey),
    (
        "an unknown key of a file",
        |seed| seed.replace("permissions: '0600'", "mode: '0600'"),
        Reason::UnknownKey,
    ),
    ("permissions that are none", |seed| seed.replace("'0600'", "'rw'"), Reason::WriteFile),
    (
        "no command",
        |seed| seed.replace("  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo", "  - 'echo"),
        Reason::KubeadmNotRun,
    ),
    ("an unknown command", |seed| seed.replace("'kubeadm init", "'kubeadmin init"), Reason::UnknownCommand),
    (
        "an unknown flag",
        |seed| seed.replace("kubeadm.yaml  &&", "kubeadm.yaml --skip-all &&"),
        Reason::UnknownCommand,
    ),
    (
        "a wrong path",
        |seed| seed.replace("--config /run/kubeadm/kubeadm.yaml", "--config /run/kubeadm.yaml"),
        Reason::KubeadmConfig,
    ),
    ("join in place of init", |seed| seed.replace("'kubeadm init", "'kubeadm join"), Reason::KubeadmConfig),
    (
        "an unknown API version",
        |seed| seed.replace("kubeadm.k8s.io/v1beta3", "kubeadm.k8s.io/v1beta2"),
        Reason::KubeadmConfig,
    ),
    ("an unknown field", |seed| seed.replace("clusterName:", "nameOfCluster:"), Reason::KubeadmConfig),
    (
        "no InitConfiguration",
        |seed| seed.replace("kind: InitConfiguration", "kind: JoinConfiguration"),
        Reason::KubeadmConfig,
    ),
    (
        "no control-plane endpoint",
        |seed| seed.replace("controlPlaneEndpoint: 127.1.255.1:6443", "controlPlaneEndpoint: ''"),
        Reason::KubeadmConfig,
    ),
    (
        "a version that is none",
        |seed| seed.replace("kubernetesVersion: v1.26.5+vmware.2", "kubernetesVersion: latest"),
        Reason::KubeadmConfig,
    ),
    (
        "a version of another image",
        |seed| seed.replace("kubernetesVersion: v1.26.5", "kubernetesVersion: v1.27.5"),
        Reason::Version,
    ),
    (
        "a version that is older than the image's kubelet",
        |seed| seed.replace("kubernetesVersion: v1.26.5", "kubernetesVersion: v1.25.5"),
        Reason::Preflight,
    ),
    (
        "a version that the image's kubeadm is too new for",
        |seed| seed.replace("kubernetesVersion: v1.26.5", "kubernetesVersion: v1.24.5"),
        Reason::Version,
    ),
    (
        "a range that is none",
        |seed| seed.replace("198.51.100.0/12", "198.51.100.0-12"),
        Reason::KubeadmConfig,
    ),
    (
        "a node name that is none",
        |seed| seed.metadata = seed.metadata.replace("local-hostname: cp_0", "").replace("cp-0", "CP_0"),
        Reason::KubeadmConfig,
    ),
    (
        "a provider ID that is none",
        |seed| seed.metadata = seed.metadata.replace("vsphere://", ""),
        Reason::Registration,
    ),
    ("no CA key", |seed| seed.without_file("/etc/kubernetes/pki/ca.key"), Reason::CertificateMissing),
    ("no etcd CA", |seed| seed.without_file("/etc/kubernetes/pki/etcd/ca.crt"), Reason::CertificateMissing),
    (
        "another cluster's CA key",
        |seed| seed.exchange_file("/etc/kubernetes/pki/ca.key"),
        Reason::Certificate,
    ),
    (
        "another cluster's service account key",
        |seed| seed.exchange_file("/etc/kubernetes/pki/sa.key"),
        Reason::Certificate,
    ),
    (
        "certificates elsewhere",
        |seed| seed.replace("clusterName: sample", "clusterName: sample\n      certificatesDir: /etc/pki"),
        Reason::CertificateMissing,
    ),
];

fn guest_vm(stack: &Arc<StackIdentity>, disk: PathBuf) -> GuestVm {
    GuestVm {
        name: "cp-0".into(),
        address: GuestAddress::served_on([127, 1, 1, 1].into()),
        disk: Disk::at(disk).unwrap(),
        programs: Arc::new(Programs {
            // `true` accepts any configuration, so all failures come from the simulator.
            kubeadm: "/bin/true".into(),
            ..sample::programs(Path::new("/nonexistent"))
        }),
        stack: Arc::clone(stack),
        kubernetes_version: Some("v1.26.5+vmware.2".into()),
        images: sample::images("v1.26.5+vmware.2"),
        boot_timeout: Duration::ZERO,
        addresses: Arc::default(),
        silent: Patterns::default(),
        provoked: Provoked::default(),
    }
}

#[tokio::test]
async fn every_mutation_keeps_the_node_out_for_its_own_reason() {
    let stack = Arc::new(StackIdentity::ephemeral().unwrap());
    let sample =
        Sample { pki: Pki::generate(), endpoint: "127.1.255.1:6443".into(), version: "v1.26.5+vmware.2" };
    let secrets: Vec<_> = sample.pki.files().into_iter().filter(|(path, _)| path.contains(".key")).collect();
    // The unmodified sample fails only because the test lacks the node programs.
    let mutations = [("nothing", (|_| {}) as fn(&mut Seed), Reason::Host)].into_iter().chain(MUTATIONS);
    let mut wrong = Vec::new();
    for (number, (name, mutate, reason)) in mutations.enumerate() {
        let mut seed =
            Seed { metadata: Sample::metadata("cp-0"), userdata: sample.init(), other: Pki::generate() };
        mutate(&mut seed);
        let guest_vm = guest_vm(&stack, stack.folder().join(number.to_string()));
        let failure =
            boot(guest_vm, seed.metadata.as_bytes(), seed.userdata.as_bytes()).await.map(drop).unwrap_err();
        if failure.reason != reason {
            wrong.push(format!("{name}: {reason} expected, {failure}"));
        }
        for (_, secret) in &secrets {
            assert!(
                !secret.lines().skip(1).any(|line| failure.message.contains(line)),
                "{name} tells a secret"
            );
        }
    }
    std::fs::remove_dir_all(stack.folder()).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
