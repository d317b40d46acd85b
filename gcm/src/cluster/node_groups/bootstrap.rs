//! What every node is given for its first boot, whichever object carries it: commands, files, a user, and how the
//! kubelet registers the node.

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
use crate::cluster::volumes::setup::VolumeSetup;
use crate::duration;
use crate::release::KubernetesRelease;
use crate::release::trust_store::TrustStore;
use crate::spec::labels::registered_labels;

/// The name under which a node registers. Only the machine knows it, so cloud-init puts it in, through jinja.
const NODE_NAME: &str = "{{ ds.meta_data.local_hostname }}";

/// Returns the configuration of a node with this registration and these volumes. Nodes of the control plane and of pools
/// share it.
pub fn node_config(
    input: &GroupInput<'_>,
    volumes: VolumeSetup,
    registration: NodeRegistration,
) -> ConfigSpec {
    let (commands, files) = node_setup(&input.cluster, &volumes);
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

/// Returns the registration of a node with these labels.
pub fn node_registration(input: &Input<'_>, labels: &BTreeMap<String, String>) -> NodeRegistration {
    NodeRegistration {
        name: Some(NODE_NAME.to_owned()),
        kubelet_extra_args: Some(kubelet_arguments(input, labels)),
        ..NodeRegistration::default()
    }
}

fn disk_setup(filesystems: Vec<DiskFilesystem>) -> DiskSetup {
    // Of each disk, since Cluster API writes a `disk_setup` that is nothing otherwise, which cloud-init warns of.
    let whole = |filesystem: &DiskFilesystem| DiskPartition {
        device: filesystem.device.clone(),
        layout: Some(false),
        ..DiskPartition::default()
    };
    let partitions = filesystems.iter().map(whole).collect();
    DiskSetup { filesystems: Some(filesystems), partitions: Some(partitions) }
}

/// The shell commands before kubeadm, in their order, and the files. Every node of the cluster gets them, and with them what its
/// volumes need.
fn node_setup(input: &Input<'_>, volumes: &VolumeSetup) -> (Vec<String>, Vec<NodeFile>) {
    let mut files = volumes.files.clone();
    let mut commands = vec!["hostnamectl set-hostname \"{{ ds.meta_data.hostname }}\"".to_owned()];
    commands.extend(volumes.commands.iter().cloned());
    let trust_store = trust_store(input);
    let authorities = input.network.trust.map(|trust| trusted_files(trust, trust_store)).unwrap_or_default();
    let proxy = proxy::files(&input.network);
    if !authorities.is_empty() {
        commands.push(trust_store.command().to_owned());
    }
    if !proxy.is_empty() {
        commands.push(proxy::address_command());
        commands.push("systemctl daemon-reload".to_owned());
        commands.push(format!("chown {} {}", USER, proxy::SHELL_FILE));
    }
    // It runs already, and reads authorities and environment when it starts.
    if !authorities.is_empty() || !proxy.is_empty() {
        commands.push("systemctl restart containerd".to_owned());
    }
    files.extend(authorities.into_iter().chain(proxy));
    (commands, files)
}

/// Returns the value of the label that nodes of this release have.
pub fn node_release(release: &KubernetesRelease) -> String {
    names::joined(&release.candidate.version.label_value(), "", names::MAX_MACHINE_NAME)
}

/// The arguments of a node's kubelet. Values that only the machine knows come from its metadata, through jinja.
fn kubelet_arguments(input: &Input<'_>, labels: &BTreeMap<String, String>) -> Vec<KubeadmArgument> {
    let mut text = format!("{}={}", label::KUBERNETES_DISTRIBUTION_VERSION, node_release(input.release));
    for (key, value) in registered_labels(labels) {
        let _ = write!(text, ",{key}={value}");
    }
    let argument = |name: &str, value| KubeadmArgument { name: name.to_owned(), value };
    vec![argument("node-labels", text), argument("provider-id", "{{ ds.meta_data.provider_id }}".to_owned())]
}

/// How long the deletion of a Machine waits for that of its Node: as long as it takes. Cluster API's own 10 s count from
/// the Machine's deletion, and while a control plane is replaced the endpoint is away for about as long: the Node stayed.
pub const NODE_DELETION_SECONDS: i32 = 0;

/// How long draining may take; 0 and nothing both mean: as long as it takes.
pub fn drain_seconds(text: Option<&str>) -> Option<i32> {
    text.and_then(duration::parse_seconds).filter(|seconds| *seconds > 0)
}

/// Returns the trust store of the cluster's nodes. Of an unknown system it is Debian's, as in earlier versions: admission refuses
/// additional authorities for it, or warns.
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
