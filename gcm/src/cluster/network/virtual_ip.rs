//! Configures the virtual IP of a control plane that doesn't have a load balancer. A static Pod on each control plane node can
//! announce the address. Only one of the nodes has the address at a time.
//!
//! A node reads the address from its metadata at boot. The same KubeadmControlPlane therefore works before and after the
//! address is assigned.

use api::capi::{KubeadmConfigSpec as ConfigSpec, KubeadmConfigSpecFiles as ConfigFile, KubeadmControlPlane};

use crate::cluster::node_file::NodeFile;
use crate::release::virtual_ip::AddressHolder;

const KEEPALIVED_POD: &str = "/etc/kubernetes/manifests/keepalived.yaml";
/// The path of the keepalived configuration file. It isn't in /etc/keepalived, because a mount there would hide the file that
/// Debian's keepalived looks for.
const KEEPALIVED_CONFIG: &str = "/etc/virtual-ip/keepalived.conf";
const KUBE_VIP_POD: &str = "/etc/kubernetes/manifests/kube-vip.yaml";
/// The prefix of image names for images that aren't in a registry.
const ONLY_IN_NODES: &str = "localhost";
/// The manifest paths of the static Pods that announce an address. A control plane with one of these files has a virtual IP.
const PODS: [&str; 2] = [KEEPALIVED_POD, KUBE_VIP_POD];

/// The files and commands for a control plane's virtual IP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualIp {
    pub files: Vec<ConfigFile>,
    /// The commands that run before kubeadm.
    pub before: Vec<String>,
    /// The commands that run after kubeadm.
    pub after: Vec<String>,
}

impl VirtualIp {
    /// Returns the setup for a new control plane whose address `holder` announces.
    pub fn of(holder: &AddressHolder) -> Self {
        match holder {
            AddressHolder::None => Self::default(),
            AddressHolder::Keepalived(image) => set_up_keepalived(image),
            AddressHolder::KubeVip(image) => set_up_kube_vip(image),
        }
    }

    /// Returns the setup of an existing control plane. It must not change, because another setup would replace all nodes, and the
    /// address can't be moved to another program.
    pub fn kept(live: &KubeadmControlPlane) -> Self {
        let Some(config) = live.spec.kubeadm_config_spec.as_ref() else { return Self::default() };
        let all = config.files.as_deref().unwrap_or_default();
        if !all.iter().any(|file| PODS.contains(&file.path.as_str())) {
            return Self::default();
        }
        let is_own = |path: &str| PODS.contains(&path) || path == KEEPALIVED_CONFIG;
        let commands = |all: Option<&[String]>| {
            let own = |command: &&String| {
                PODS.iter().chain([&KEEPALIVED_CONFIG]).any(|path| command.contains(path))
            };
            all.unwrap_or_default().iter().filter(own).cloned().collect()
        };
        Self {
            files: all.iter().filter(|file| is_own(&file.path)).cloned().collect(),
            before: commands(config.pre_kubeadm_commands.as_deref()),
            after: commands(config.post_kubeadm_commands.as_deref()),
        }
    }

    /// Replaces an image that is bundled in node images with the image in the next release's node image. An image from a registry
    /// stays.
    #[must_use]
    pub fn with_image_of(mut self, holder: &AddressHolder) -> Self {
        let (path, image) = match holder {
            AddressHolder::None => return self,
            AddressHolder::Keepalived(image) => (KEEPALIVED_POD, image),
            AddressHolder::KubeVip(image) => (KUBE_VIP_POD, image),
        };
        for file in self.files.iter_mut().filter(|file| file.path == path) {
            let Some(content) = &mut file.content else { continue };
            let live = content.lines().find_map(|line| line.trim_start().strip_prefix("image: "));
            if let Some(live) = live.map(str::to_owned)
                && live.starts_with(ONLY_IN_NODES)
            {
                *content = content.replace(&format!("image: {live}\n"), &format!("image: {image}\n"));
            }
        }
        self
    }

    /// Adds the setup to the node configuration.
    pub fn put_into(self, config: &mut ConfigSpec) {
        let Self { files, before, after } = self;
        if !files.is_empty() {
            config.files.get_or_insert_default().extend(files);
        }
        if !before.is_empty() {
            config.pre_kubeadm_commands.get_or_insert_default().extend(before);
        }
        if !after.is_empty() {
            config.post_kubeadm_commands.get_or_insert_default().extend(after);
        }
    }
}

/// Returns the setup for keepalived. A node whose API server answers takes the address, and keeps it until the API server
/// stops. The network interface is determined at boot, because its name depends on the image.
fn set_up_keepalived(image: &str) -> VirtualIp {
    let pod = with_image(include_str!("virtual_ip/keepalived.yaml"), image);
    let config = include_str!("virtual_ip/keepalived.conf").to_owned();
    VirtualIp {
        files: vec![file(KEEPALIVED_CONFIG, config), file(KEEPALIVED_POD, pod)],
        before: vec![format!(
            "sed -i \"s/@INTERFACE@/$(ip -o route get {{{{ ds.meta_data.controlPlaneHost }}}} | sed 's/.* dev \\([^ ]*\\).*/\\1/')/\" {KEEPALIVED_CONFIG}"
        )],
        after: Vec::new(),
    }
}

/// Returns the setup for kube-vip, which uses leader election in the cluster. Until kubeadm on the first node has created the
/// administrator's permissions, only super-admin.conf grants access. Other nodes don't have this file.
fn set_up_kube_vip(image: &str) -> VirtualIp {
    let replace = |from: &str, to: &str| {
        format!("sed -i 's#path: /etc/kubernetes/{from}#path: /etc/kubernetes/{to}#' {KUBE_VIP_POD}")
    };
    VirtualIp {
        files: vec![file(KUBE_VIP_POD, with_image(include_str!("virtual_ip/kube-vip.yaml"), image))],
        before: vec![format!(
            "grep -qs InitConfiguration /run/kubeadm/kubeadm.yaml && {}",
            replace("admin.conf", "super-admin.conf")
        )],
        after: vec![replace("super-admin.conf", "admin.conf")],
    }
}

fn with_image(pod: &str, image: &str) -> String {
    pod.replace("@IMAGE@", image)
}

fn file(path: &str, content: String) -> ConfigFile {
    NodeFile { path: path.to_owned(), permissions: "0600", content }.into()
}

#[cfg(test)]
mod tests {
    use api::names::KEEPALIVED_IMAGE;

    use super::*;

    fn control_plane(virtual_ip: VirtualIp) -> KubeadmControlPlane {
        let mut config = ConfigSpec {
            files: Some(vec![file("/etc/ssl/certs/a.pem", "a".into())]),
            pre_kubeadm_commands: Some(vec!["hostnamectl set-hostname x".into()]),
            ..ConfigSpec::default()
        };
        virtual_ip.put_into(&mut config);
        let mut live = KubeadmControlPlane::default();
        live.spec.kubeadm_config_spec = Some(config);
        live
    }

    fn holders() -> [AddressHolder; 3] {
        [
            AddressHolder::None,
            AddressHolder::Keepalived("example.com/keepalived:1".to_owned()),
            AddressHolder::KubeVip("example.com:5000/vip:1".to_owned()),
        ]
    }

    #[test]
    fn a_control_plane_keeps_what_holds_its_address() {
        for holder in holders() {
            let made = VirtualIp::of(&holder);
            assert_eq!(made.files.is_empty(), holder == AddressHolder::None);
            assert_eq!(VirtualIp::kept(&control_plane(made.clone())), made, "{holder:?}");
        }
    }

    #[test]
    fn an_image_that_lies_in_node_images_goes_with_the_release() {
        let vip = |image: &str| AddressHolder::KubeVip(image.to_owned());
        let held = |holder: &AddressHolder| VirtualIp::of(holder);
        let of_release = vip("localhost:5000/vmware.io/kube-vip:v2");
        let live = held(&vip("localhost:5000/vmware.io/kube-vip:v1"));
        assert_eq!(live.clone().with_image_of(&of_release), held(&of_release));
        let pulled = held(&vip("ghcr.io/kube-vip/kube-vip:v1.0.1"));
        assert_eq!(pulled.clone().with_image_of(&of_release), pulled, "a registry has it");
        assert_eq!(live.clone().with_image_of(&vip("ghcr.io/kube-vip/kube-vip:v1.0.1")), pulled);
        // The address can't be moved to another program.
        let [none, keepalived, _] = holders();
        for holder in [none, keepalived] {
            assert_eq!(live.clone().with_image_of(&holder), live, "{holder:?}");
        }
    }

    #[test]
    fn the_files_of_a_virtual_ip() {
        let keepalived = AddressHolder::Keepalived(KEEPALIVED_IMAGE.to_owned());
        let kube_vip = AddressHolder::KubeVip("ghcr.io/kube-vip/kube-vip:v1.0.1".to_owned());
        insta::assert_yaml_snapshot!("keepalived", VirtualIp::of(&keepalived).files);
        insta::assert_yaml_snapshot!("kube_vip", VirtualIp::of(&kube_vip).files);
        insta::assert_yaml_snapshot!(
            "commands",
            [keepalived, kube_vip]
                .map(|holder| (VirtualIp::of(&holder).before, VirtualIp::of(&holder).after))
        );
    }

    /// Checks that the clusterctl templates, which create clusters without gcm, contain the same files and commands.
    #[test]
    fn the_templates_of_clusterctl_hold_the_address_in_the_same_way() {
        let VirtualIp { files, before, after } =
            set_up_keepalived(&format!("${{KEEPALIVED_IMAGE:={KEEPALIVED_IMAGE}}}"));
        assert!(after.is_empty());
        for name in ["cluster-template.yaml", "clusterclass-wcp.yaml"] {
            let path = format!("{}/../config/clusterctl/templates/{name}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
            let config = documents.iter().find_map(|document| {
                let paths = ["/spec/kubeadmConfigSpec", "/spec/template/spec/kubeadmConfigSpec"];
                paths.iter().find_map(|path| document.pointer(path))
            });
            let config = config.unwrap();
            assert_eq!(config["preKubeadmCommands"][1], before[0], "{name}");
            for (of_template, file) in config["files"].as_array().unwrap().iter().zip(&files) {
                assert_eq!(of_template["path"], file.path, "{name}");
                assert_eq!(of_template["content"].as_str(), file.content.as_deref(), "{name}");
            }
        }
    }
}
