//! Checks a node's boot data with independent programs, and that each mutation makes the boot fail.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use sim::control::VmDisk;
use sim::guest::{ContainerImages, Disk, Failure, GuestVm, Programs, Provoked, Reason, Registry, Seed, boot};
use sim::pattern::Patterns;
use sim::releases::NODE_IMAGES;

use crate::harness::story::{CLUSTER, Story, assert_contains, story};
use crate::harness::vsphere_soap;

const RELEASE: &str = "v1.36.3---vmware.1-vkr.1";

const MANIFEST: &str = r"
apiVersion: run.tanzu.vmware.com/v1alpha2
kind: TanzuKubernetesCluster
metadata: {name: boot, namespace: NAMESPACE}
spec:
  topology:
    controlPlane:
      replicas: 1
      vmClass: best-effort-small
      storageClass: gold
      volumes: [{name: etcd, mountPath: /var/lib/etcd, capacity: {storage: 4Gi}}]
      tkr: {reference: {name: v1.36.3---vmware.1-vkr.1}}
    nodePools:
    - name: only
      replicas: 1
      vmClass: best-effort-small
      storageClass: gold
      volumes: [{name: containerd, mountPath: /var/lib/containerd, capacity: {storage: 16Gi}}]
";

#[test]
fn a_node_boots_from_its_extra_config_alone() {
    story("boot", |story| async move {
        story.shared.guests.hold("boot-control-plane-*");
        story.shared.guests.hold("boot-only-*");
        story.apply(MANIFEST).await;
        let control_plane = held_vm(&story, "boot-control-plane-").await;
        let metadata = its_cloud_init_is_what_cluster_api_wrote(&story, &control_plane).await;
        the_metadata_has_what_the_node_needs(&metadata, &control_plane);
        let control_plane_data = userdata(&story, &control_plane).await;
        cloud_init_accepts_it(&story, &control_plane_data, &metadata);
        kubeadm_accepts_it(&story, &control_plane_data, &metadata);
        story.shared.guests.release("boot-control-plane-*");

        let worker = held_vm(&story, "boot-only-").await;
        let worker_metadata = its_cloud_init_is_what_cluster_api_wrote(&story, &worker).await;
        let worker_data = userdata(&story, &worker).await;
        cloud_init_accepts_it(&story, &worker_data, &worker_metadata);
        kubeadm_accepts_it(&story, &worker_data, &worker_metadata);
        let seeds = [(control_plane_data.as_str(), &metadata), (worker_data.as_str(), &worker_metadata)];
        every_mutation_keeps_the_node_out(&story, seeds).await;
        story.shared.guests.release("boot-only-*");

        story.wait_until_running("boot").await;
        the_userdata_is_gone_after_the_boot(&story).await;
        story.delete("TanzuKubernetesCluster", "boot", CLUSTER).await;
    });
}

/// Waits until a VM with this name prefix is held before its boot, and returns it.
async fn held_vm(story: &Story, prefix: &str) -> sim::control::InventoryVm {
    story
        .wait_for(&format!("{prefix}… waits to boot"), CLUSTER, || async {
            let vms = story.vms().await;
            let vm = vms.into_iter().find(|vm| vm.name.starts_with(prefix))?;
            let keys = story.shared.control().guestinfo(&vm.moid).await.ok()?;
            (vm.power_state == "poweredOn" && keys.contains_key("guestinfo.userdata")).then_some(vm)
        })
        .await
}

async fn its_cloud_init_is_what_cluster_api_wrote(story: &Story, vm: &sim::control::InventoryVm) -> Value {
    let keys = vsphere_soap::extra_config(&story.shared.session, &vm.moid).await;
    let userdata = decode(&keys, "guestinfo.userdata");
    let machine = story.get("Machine", &vm.name).await.unwrap();
    let name = machine["spec"]["bootstrap"]["dataSecretName"].as_str().unwrap();
    let secrets: Api<Secret> = Api::namespaced(story.client(), &story.namespace);
    let written = secrets.get(name).await.unwrap().data.unwrap()["value"].0.clone();
    assert!(userdata == written, "the userdata in ExtraConfig is not what the bootstrap provider wrote");
    serde_saphyr::from_slice(&decode(&keys, "guestinfo.metadata")).unwrap()
}

pub fn decode(keys: &BTreeMap<String, String>, key: &str) -> Vec<u8> {
    assert_eq!(keys[&format!("{key}.encoding")], "gzip+base64");
    let packed = BASE64_STANDARD.decode(&keys[key]).unwrap();
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut data).unwrap();
    data
}

async fn userdata(story: &Story, vm: &sim::control::InventoryVm) -> String {
    let keys = story.shared.control().guestinfo(&vm.moid).await.unwrap();
    String::from_utf8(decode(&keys, "guestinfo.userdata")).unwrap()
}

fn the_metadata_has_what_the_node_needs(metadata: &Value, vm: &sim::control::InventoryVm) {
    assert_eq!(metadata["local-hostname"], vm.name.as_str());
    assert!(metadata["instance-id"].is_string());
    assert_contains(&metadata["controlPlaneEndpoint"], &[":6443"]);
    assert_eq!(metadata["provider_id"], format!("vsphere://{}", vm.uuid));
    assert_eq!(metadata["redact"], json!(["userdata", "vendordata"]));
}

async fn the_userdata_is_gone_after_the_boot(story: &Story) {
    for vm in story.vms().await {
        let keys = vsphere_soap::extra_config(&story.shared.session, &vm.moid).await;
        let left = keys.get("guestinfo.userdata").map_or("", String::as_str);
        assert!(matches!(left, "" | "---"), "{} still carries its userdata", vm.name);
        let metadata: Value = serde_saphyr::from_slice(&decode(&keys, "guestinfo.metadata")).unwrap();
        assert_eq!(metadata["local-hostname"], vm.name.as_str());
    }
}

/// Returns the cloud-config with its template rendered, as the node sees it.
fn rendered(userdata: &str, metadata: &Value) -> String {
    let seed = Seed::from_parts(&serde_json::to_vec(metadata).unwrap(), None).unwrap();
    let variables = seed.template_variables(Ipv4Addr::new(10, 1, 2, 3));
    sim::guest::cloud_config(userdata.as_bytes(), &variables).unwrap()
}

/// Debian's cloud-init checks the schema of the rendered cloud-config.
fn cloud_init_accepts_it(story: &Story, userdata: &str, metadata: &Value) {
    if Command::new("cloud-init").arg("--version").output().is_err() {
        eprintln!(
            "SKIPPED: cloud-init is not installed, so its schema check was not run (Debian: apt-get install cloud-init)"
        );
        return;
    }
    let file = tempfile::NamedTempFile::new_in(story.folder()).unwrap();
    std::fs::write(file.path(), rendered(userdata, metadata)).unwrap();
    let check =
        Command::new("cloud-init").args(["schema", "--config-file"]).arg(file.path()).output().unwrap();
    let output =
        String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success() && output.contains("Valid"), "cloud-init schema: {output}");
}

/// The real kubeadm validates the configuration that the node would pass to it.
fn kubeadm_accepts_it(story: &Story, userdata: &str, metadata: &Value) {
    let config: Value = serde_saphyr::from_str(&rendered(userdata, metadata)).unwrap();
    let files = config["write_files"].as_array().unwrap();
    let kubeadm =
        files.iter().find(|file| file["path"].as_str().unwrap().starts_with("/run/kubeadm/")).unwrap();
    let file = tempfile::NamedTempFile::new_in(story.folder()).unwrap();
    std::fs::write(file.path(), kubeadm["content"].as_str().unwrap()).unwrap();
    let check = Command::new(story.shared.tools.further(plane::tools::KUBEADM.name))
        .args(["config", "validate", "--config"])
        .arg(file.path())
        .output();
    let check = check.unwrap();
    assert!(check.status.success(), "kubeadm: {}", String::from_utf8_lossy(&check.stderr));
}

/// A mutation for a node's cloud-init: its name, the change, and the possible failure reasons.
type Mutation = (&'static str, fn(&str) -> String, &'static [Reason]);

use Reason as R;

/// Mutations for a control plane node's cloud-init.
const CONTROL_PLANE: &[Mutation] = &[
    ("no cloud-config line", |t| t.replacen("#cloud-config", "#cloud-conf", 1), &[R::UserdataFormat]),
    (
        "no template line",
        |t| t.replacen("## template: jinja\n", "", 1),
        &[R::KubeadmConfig, R::CloudConfig, R::UnknownCommand],
    ),
    (
        "an unset jinja variable",
        |t| t.replace("ds.meta_data.provider_id", "ds.meta_data.provider_uid"),
        &[R::TemplateVariable],
    ),
    ("a broken template", |t| t.replacen("{{ ds.meta_data", "{{ ds.meta_data |", 1), &[R::Template]),
    ("no YAML", |t| t.replacen("write_files:", "write_files: [", 1), &[R::CloudConfig]),
    ("an unknown key", |t| t.replacen("write_files:", "write_file:", 1), &[R::UnknownKey]),
    ("an unknown command", |t| t.replace("kubeadm init", "kubeadm innit"), &[R::UnknownCommand]),
    ("no kubeadm configuration", |t| renamed(t, "/run/kubeadm/kubeadm.yaml"), &[R::KubeadmConfig]),
    (
        "a kubeadm version nobody knows",
        |t| t.replace("kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1beta9"),
        &[R::KubeadmConfig],
    ),
    ("a misspelt kubeadm field", |t| t.replacen("clusterName:", "clusterNam:", 1), &[R::KubeadmConfig]),
    ("no cluster CA", |t| renamed(t, "/etc/kubernetes/pki/ca.crt"), &[R::CertificateMissing]),
    ("no key of the cluster CA", |t| renamed(t, "/etc/kubernetes/pki/ca.key"), &[R::CertificateMissing]),
    ("no etcd CA", |t| renamed(t, "/etc/kubernetes/pki/etcd/ca.crt"), &[R::CertificateMissing]),
    ("no front-proxy CA", |t| renamed(t, "/etc/kubernetes/pki/front-proxy-ca.crt"), &[R::CertificateMissing]),
    ("no service account key", |t| renamed(t, "/etc/kubernetes/pki/sa.key"), &[R::CertificateMissing]),
    ("no audit policy", |t| renamed(t, "/etc/kubernetes/api-server/audit-policy.yaml"), &[R::StaticPod]),
    (
        "no encryption configuration",
        |t| renamed(t, "/etc/kubernetes/api-server/encryption.yaml"),
        &[R::StaticPod],
    ),
    (
        "a file that the API server does not see",
        |t| t.replace("mountPath: /etc/kubernetes/api-server/encryption.yaml", "mountPath: /encryption.yaml"),
        &[R::ApiServer],
    ),
    (
        "an audit log that can't be written",
        |t| with_line_before(t, "mountPath: /var/log/kubernetes", "readOnly: true"),
        &[R::StaticPod],
    ),
    (
        "another CA's key",
        |t| swapped(t, "/etc/kubernetes/pki/ca.key", "/etc/kubernetes/pki/etcd/ca.key"),
        &[R::Certificate],
    ),
    (
        "permissions that are none",
        |t| t.replacen("permissions: '0640'", "permissions: 'rw-r-----'", 1),
        &[R::WriteFile, R::CloudConfig],
    ),
    (
        "an owner that does not exist",
        |t| t.replacen("owner: root:root", "owner: rooot:root", 1),
        &[R::WriteFile, R::CloudConfig],
    ),
    ("a disk that is not there", |t| t.replace("*:0:1:0", "*:0:2:0"), &[R::Disk]),
    ("a disk without a filesystem", |t| t.replace("label: data-etcd", "label: data"), &[R::Disk]),
    (
        "lost and found in etcd's folder",
        |t| t.replace("test ! -e /var/lib/etcd/lost+found", "true"),
        &[R::Preflight],
    ),
];

/// Mutations for a worker's cloud-init.
const WORKER: &[Mutation] = &[
    ("no join configuration", |t| renamed(t, "/run/kubeadm/kubeadm-join-config.yaml"), &[R::KubeadmConfig]),
    ("another token", |t| changed_after(t, "token: ", 22), &[R::Discovery, R::BootstrapToken]),
    ("another CA hash", |t| changed_after(t, "sha256:", 63), &[R::CaHash]),
    ("an endpoint without an API server", |t| t.replace(":6443", ":6444"), &[R::Discovery]),
    (
        "a kubelet that waits for no disk",
        |t| renamed(t, "/etc/systemd/system/kubelet.service.d/10-volumes.conf"),
        &[R::Disk],
    ),
    (
        "containerd on the folder below its disk",
        |t| t.replace("systemctl start containerd", "true"),
        &[R::Preflight],
    ),
    (
        "a command that fails before kubeadm",
        |t| t.replacen("runcmd:", "runcmd:\n  - exit 1", 1),
        &[R::Command, R::UnknownCommand],
    ),
];

/// Inserts a line before another one, with the same indentation.
fn with_line_before(text: &str, line: &str, new: &str) -> String {
    let at = text.find(line).unwrap_or_default();
    let indentation = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at];
    format!("{}{new}\n{indentation}{}", &text[..at], &text[at..])
}

/// Renames the written file.
fn renamed(text: &str, path: &str) -> String {
    text.replacen(&format!("path: {path}\n"), &format!("path: {path}.bak\n"), 1)
}

fn swapped(text: &str, one: &str, other: &str) -> String {
    let line = |path: &str| format!("path: {path}\n");
    text.replacen(&line(one), "path: /swap\n", 1).replacen(&line(other), &line(one), 1).replacen(
        "path: /swap\n",
        &line(other),
        1,
    )
}

/// Changes the character at `offset` after the first `marker`.
fn changed_after(text: &str, marker: &str, offset: usize) -> String {
    let at = text.find(marker).map_or(0, |start| start + marker.len() + offset);
    let other = if text[at..].starts_with('0') { "1" } else { "0" };
    format!("{}{other}{}", &text[..at], &text[at + 1..])
}

async fn every_mutation_keeps_the_node_out(story: &Story, seeds: [(&str, &Value); 2]) {
    let guest = story.guest_client("boot").await;
    let nodes: Api<Node> = Api::all(guest);
    let before = nodes.list(&ListParams::default()).await.unwrap().items.len();
    let mut number = 0;
    // The seeds belong to a control plane node and a worker.
    for (mutations, (userdata, metadata)) in [CONTROL_PLANE, WORKER].into_iter().zip(seeds) {
        for (name, change, reasons) in mutations {
            let mutant = change(userdata);
            assert!(mutant != userdata, "{name} changes nothing");
            let failure = boot_fails(story, &format!("mutant-{number}"), metadata, &mutant).await;
            eprintln!("[boot] {name} → {failure}");
            assert!(reasons.contains(&failure.reason), "{name}: {failure}, but {reasons:?} was expected");
            number += 1;
        }
    }
    let after = nodes.list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(before, after, "a mutant got in");
}

/// Returns the image's disk and one additional disk.
fn disks() -> [VmDisk; 2] {
    [0, 1].map(|unit| VmDisk {
        bus: "scsi".to_owned(),
        unit,
        uuid: format!("6000c29{unit}"),
        capacity_mib: 4096,
        ..VmDisk::default()
    })
}

/// Boots a separate VM with this cloud-init, and returns the reason why it didn't become a node.
async fn boot_fails(story: &Story, name: &str, metadata: &Value, userdata: &str) -> Failure {
    let stack = story.shared.stack().await;
    let image = NODE_IMAGES.iter().find(|image| image.release() == RELEASE).unwrap();
    let guest_vm = GuestVm {
        name: name.to_owned(),
        address: stack.site().subnet().guest_address(name).unwrap(),
        disk: Disk::at(story.folder().join("mutants").join(name)).unwrap().with_devices(&disks()),
        programs: Arc::new(Programs::from(&story.shared.tools)),
        stack: stack.marked().clone(),
        kubernetes_version: None,
        images: ContainerImages::new(Arc::new(image.container_images()), Registry::new(true)),
        boot_timeout: Duration::from_secs(6),
        addresses: Arc::default(),
        silent: Patterns::default(),
        provoked: Provoked::default(),
    };
    let mut metadata = metadata.clone();
    metadata["local-hostname"] = name.into();
    metadata["hostname"] = name.into();
    let outcome = boot(guest_vm, &serde_json::to_vec(&metadata).unwrap(), userdata.as_bytes()).await;
    stack.site().subnet().release_guest_address(name);
    match outcome {
        Ok(mut guest) => {
            guest.power_off().await;
            panic!("{name} became a node");
        }
        Err(failure) => failure,
    }
}
