//! What every node is given for its first boot, whichever object carries it: commands, files, a user, and how the
//! kubelet registers the node.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::gcm::parts::Trust;
use api::names::{self, label};

use crate::admission::settings;
use crate::cluster::input::Input;
use crate::cluster::login::objects::USER;
use crate::cluster::network::proxy;
use crate::cluster::node_file::NodeFile;
use crate::cluster::volumes::setup::VolumeSetup;
use crate::duration;
use crate::spec::labels::registered_labels;

/// The name under which a node registers. Only the machine knows it, so cloud-init puts it in, through jinja.
pub const NODE_NAME: &str = "{{ ds.meta_data.local_hostname }}";

/// Makes Photon trust the certificates in its folder.
const PHOTON_TRUST: &str = "rehash_ca_certificates.sh";
/// Makes systems of Debian's family trust the certificates in their folder for local ones.
const DEBIAN_TRUST: &str = "update-ca-certificates";

/// What runs and what stands on a node before kubeadm runs.
pub struct NodeSetup {
    /// Shell commands, in their order.
    pub commands: Vec<String>,
    /// Files.
    pub files: Vec<NodeFile>,
}

/// What every node of the cluster gets, and with it what its volumes need.
pub fn node_setup(input: &Input<'_>, volumes: &VolumeSetup) -> NodeSetup {
    let mut files = volumes.files.clone();
    let mut commands = vec!["hostnamectl set-hostname \"{{ ds.meta_data.hostname }}\"".to_owned()];
    commands.extend(volumes.commands.iter().cloned());
    let authorities = input.network().trust.map(trusted_files).unwrap_or_default();
    let proxy = proxy::files(&input.network());
    if !authorities.is_empty() {
        commands.push(trust_command(&input.image.labels).to_owned());
    }
    if !proxy.is_empty() {
        commands.push("systemctl daemon-reload".to_owned());
        commands.push(format!("chown {} {}", USER, proxy::SHELL_FILE));
    }
    // It runs already, and reads authorities and environment when it starts.
    if !authorities.is_empty() || !proxy.is_empty() {
        commands.push("systemctl restart containerd".to_owned());
    }
    files.extend(authorities.into_iter().chain(proxy));
    NodeSetup { commands, files }
}

/// The arguments of a node's kubelet, by name. What only the machine knows comes from its own metadata, through jinja.
pub fn kubelet_arguments(
    input: &Input<'_>,
    labels: &BTreeMap<String, String>,
) -> [(&'static str, String); 2] {
    let mut text = format!(
        "{}={}",
        label::KUBERNETES_DISTRIBUTION_VERSION,
        names::joined(&input.release.candidate.version.label_value(), "", names::MAX_MACHINE_NAME)
    );
    for (key, value) in registered_labels(labels) {
        let _ = write!(text, ",{key}={value}");
    }
    [("node-labels", text), ("provider-id", "{{ ds.meta_data.provider_id }}".to_owned())]
}

/// How long the deletion of a Machine waits for that of its Node: as long as it takes. Cluster API's own 10 s count from
/// the Machine's deletion, and while a control plane is replaced the endpoint is away for about as long: the Node stayed.
pub const NODE_DELETION_SECONDS: i32 = 0;

/// How long draining may take; 0 and nothing both mean: as long as it takes.
pub fn drain_seconds(text: Option<&str>) -> Option<i32> {
    text.and_then(duration::parse_seconds).filter(|seconds| *seconds > 0)
}

/// Photon keeps authorities where OpenSSL looks; Debian's family has a folder of its own for local ones.
fn trust_command(os: &BTreeMap<String, String>) -> &'static str {
    let photon = os.get("os-name").is_some_and(|name| name == "photon");
    if photon { PHOTON_TRUST } else { DEBIAN_TRUST }
}

/// Whether a node that these commands set up runs Photon.
///
/// No object of a cluster names its operating system, and its OSImage may be gone: the command that [`node_setup`]
/// chose is the only record. It is there whenever the answer changes anything.
pub fn runs_photon(commands: &[String]) -> bool {
    commands.iter().any(|command| command == PHOTON_TRUST)
}

fn trusted_files(trust: &Trust) -> Vec<NodeFile> {
    let authorities = trust.additional_trusted_cas.iter().flatten();
    authorities
        .filter_map(|authority| Some((settings::stem(&authority.name), settings::pem(&authority.data)?)))
        .flat_map(|(name, pem)| {
            let paths = [
                format!("/etc/ssl/certs/{name}.pem"),
                format!("/usr/local/share/ca-certificates/{name}.crt"),
            ];
            paths.map(|path| NodeFile { path, permissions: "0644", content: pem.clone() })
        })
        .collect()
}
