//! Builds the bootstrap data that all nodes share: commands, files, a user, and the kubelet's registration.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::capi::{
    KubeadmArgument, KubeadmConfigSpec as ConfigSpec, KubeadmConfigSpecDiskSetup as DiskSetup,
    KubeadmConfigSpecDiskSetupFilesystems as DiskFilesystem,
    KubeadmConfigSpecDiskSetupPartitions as DiskPartition, KubeadmConfigSpecFiles as ConfigFile,
    KubeadmConfigSpecJoinConfiguration as JoinConfiguration, KubeadmNodeRegistration as NodeRegistration,
};
use api::gcm::parts::Trust;
use api::names::{self, label};

use super::group_input::GroupInput;
use crate::admission::authorities;
use crate::cluster::input::Input;
use crate::cluster::login::objects::{USER, node_user};
use crate::cluster::network::proxy;
use crate::cluster::node_file::NodeFile;
use crate::cluster::volumes::VolumeSetup;
use crate::duration;
use crate::release::KubernetesRelease;
use crate::release::trust_store::TrustStore;
use crate::spec::labels::registered_labels;

/// The name under which a node registers. Only the machine knows this name, so cloud-init inserts it through jinja.
const NODE_NAME: &str = "{{ ds.meta_data.local_hostname }}";

/// Returns the configuration for a node with this registration and these volumes. Control plane and pool nodes share this part.
pub fn build_node_config(
    input: &GroupInput<'_>,
    volumes: VolumeSetup,
    registration: NodeRegistration,
) -> ConfigSpec {
    let (commands, files) = compose_node_setup(&input.cluster, &volumes);
    let VolumeSetup { boot_commands, filesystems, mounts, files: _, commands: _ } = volumes;
    let files: Vec<ConfigFile> = files.into_iter().map(Into::into).collect();
    ConfigSpec {
        join_configuration: Some(JoinConfiguration {
            node_registration: Some(registration),
            ..JoinConfiguration::default()
        }),
        boot_commands: (!boot_commands.is_empty()).then_some(boot_commands),
        disk_setup: (!filesystems.is_empty()).then(|| disk_setup(filesystems)),
        mounts: (!mounts.is_empty()).then_some(mounts),
        pre_kubeadm_commands: Some(commands),
        files: (!files.is_empty()).then_some(files),
        users: Some(vec![node_user(&input.cluster, input.login)]),
        ..ConfigSpec::default()
    }
}

/// Returns the registration for a node with these labels.
pub fn node_registration(input: &Input<'_>, labels: &BTreeMap<String, String>) -> NodeRegistration {
    NodeRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(kubelet_arguments(input, labels)),
        ..NodeRegistration::default()
    }
}

fn disk_setup(filesystems: Vec<DiskFilesystem>) -> DiskSetup {
    // One partition entry per disk: without entries, Cluster API writes an empty `disk_setup` value, and cloud-init warns
    // about it.
    let whole = |filesystem: &DiskFilesystem| DiskPartition {
        device: filesystem.device.clone(),
        layout: Some(false),
        ..DiskPartition::default()
    };
    let partitions = filesystems.iter().map(whole).collect();
    DiskSetup { filesystems: Some(filesystems), partitions: Some(partitions) }
}

/// Returns the shell commands that run before kubeadm, in order, and the files to write. Some are the same for every node, and
/// the others set up the volumes.
fn compose_node_setup(input: &Input<'_>, volumes: &VolumeSetup) -> (Vec<String>, Vec<NodeFile>) {
    let mut files = volumes.files.clone();
    let mut commands = vec!["hostnamectl set-hostname \"{{ ds.meta_data.hostname }}\"".to_owned()];
    commands.extend(volumes.commands.iter().cloned());
    let trust_store = trust_store(input);
    let authorities = input.network.trust.map(|trust| trusted_files(trust, trust_store)).unwrap_or_default();
    let proxy = proxy::build_proxy_files(&input.network);
    if !authorities.is_empty() {
        commands.push(trust_store.command().to_owned());
    }
    if !proxy.is_empty() {
        commands.push(proxy::address_command());
        commands.push("systemctl daemon-reload".to_owned());
        commands.push(format!("chown {} {}", USER, proxy::SHELL_FILE));
    }
    // containerd is already running, and reads the authorities and its environment only when it starts.
    if !authorities.is_empty() || !proxy.is_empty() {
        commands.push("systemctl restart containerd".to_owned());
    }
    files.extend(authorities.into_iter().chain(proxy));
    (commands, files)
}

/// Returns the value of the release label for nodes.
pub fn node_release(release: &KubernetesRelease) -> String {
    names::joined(&release.candidate.version.label_value(), "", names::MAX_MACHINE_NAME)
}

/// Returns the kubelet's arguments. Values that only the machine knows are jinja expressions, which cloud-init evaluates with the
/// machine's metadata.
fn kubelet_arguments(input: &Input<'_>, labels: &BTreeMap<String, String>) -> Vec<KubeadmArgument> {
    let mut text = format!("{}={}", label::KUBERNETES_DISTRIBUTION_VERSION, node_release(input.release));
    for (key, value) in registered_labels(labels) {
        let _ = write!(text, ",{key}={value}");
    }
    let argument = |name: &str, value| KubeadmArgument { name: name.to_owned(), value };
    vec![argument("node-labels", text), argument("provider-id", "{{ ds.meta_data.provider_id }}".to_owned())]
}

/// The timeout for deleting a Machine's Node, in seconds; 0 means unlimited. Cluster API's default of 10 s starts with the
/// Machine's deletion. While a control plane is replaced, the endpoint can be unavailable for that long, and the Node would
/// remain.
pub const NODE_DELETION_SECONDS: i32 = 0;

/// Parses a drain timeout into seconds. Returns `None`, which means unlimited, if the timeout is missing, invalid or 0.
pub fn drain_seconds(text: Option<&str>) -> Option<i32> {
    text.and_then(duration::parse_seconds).filter(|seconds| *seconds > 0)
}

/// Returns the nodes' trust store. Unknown operating systems get Debian's trust store: for such a system, admission rejects
/// additional authorities or warns about them.
fn trust_store(input: &Input<'_>) -> TrustStore {
    TrustStore::of(&input.image.labels).unwrap_or(TrustStore::Debian)
}

fn trusted_files(trust: &Trust, store: TrustStore) -> Vec<NodeFile> {
    let authorities = trust.additional_trusted_cas.iter().flatten();
    authorities
        .filter_map(|authority| {
            Some((authorities::stem(&authority.name), authorities::pem(&authority.data)?))
        })
        .flat_map(|(name, pem)| {
            let files = store.files(name).into_iter();
            files.map(move |path| NodeFile { path, permissions: "0644", content: pem.clone() })
        })
        .collect()
}
