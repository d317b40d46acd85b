//! The settings with which a node's kubelet starts: flags, release, labels and taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Reason};
use super::kubeadm::NodeRegistration;
use crate::kubeadm_images::minor;

/// The label and taint for control plane nodes.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The former name of the label (before Kubernetes 1.24) and the taint (before 1.25).
const MASTER: &str = "node-role.kubernetes.io/master";
/// The kubelet's start settings, stored on the disk for reboots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    pub name: String,
    /// The kubelet version, with a leading `v`.
    pub kubernetes_version: String,
    /// The `provider-id` flag.
    pub provider_id: Option<String>,
    /// The labels in the `node-labels` flag.
    pub labels: BTreeMap<String, String>,
    /// The taints in kubeadm's configuration (or its defaults) and in the `register-with-taints` flag. If the cloud
    /// provider is external, also the `uninitialized` taint.
    pub taints: Vec<Taint>,
    pub control_plane: bool,
}

/// The flags that the kubelet accepts in at least one supported release. A kubelet exits if it gets an unknown flag.
const FLAGS: [&str; 54] = [
    "anonymous-auth",
    "authentication-token-webhook",
    "authorization-mode",
    "cert-dir",
    "cgroup-driver",
    "cgroup-root",
    "client-ca-file",
    "cloud-config",
    "cloud-provider",
    "cluster-dns",
    "cluster-domain",
    "config",
    "config-dir",
    "container-log-max-files",
    "container-log-max-size",
    "container-runtime",
    "container-runtime-endpoint",
    "cpu-manager-policy",
    "enforce-node-allocatable",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
    "fail-swap-on",
    "feature-gates",
    "hostname-override",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
    "image-gc-high-threshold",
    "image-gc-low-threshold",
    "image-service-endpoint",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "max-pods",
    "node-ip",
    "node-labels",
    "pod-infra-container-image",
    "pod-max-pids",
    "protect-kernel-defaults",
    "provider-id",
    "read-only-port",
    "register-with-taints",
    "resolv-conf",
    "root-dir",
    "rotate-certificates",
    "rotate-server-certificates",
    "serialize-image-pulls",
    "streaming-connection-idle-timeout",
    "system-reserved",
    "tls-cipher-suites",
    "tls-min-version",
    "v",
];

impl Registration {
    /// Creates the registration from kubeadm's node registration and the kubelet version. Fails if the kubelet would
    /// reject a flag.
    pub fn of(registration: &NodeRegistration, version: &str, control_plane: bool) -> Result<Self, Failure> {
        registration.check()?;
        let arguments = &registration.kubelet_extra_args;
        if let Some((unknown, _)) = arguments.0.iter().find(|(name, _)| !FLAGS.contains(&name.as_str())) {
            return Err(refused(&format!("unknown flag: --{unknown}")));
        }
        let mut taints =
            registration.taints.clone().unwrap_or_else(|| default_taints(control_plane, version));
        taints.extend(taint_flags(arguments.get("register-with-taints").unwrap_or_default())?);
        if arguments.get("cloud-provider") == Some("external") {
            taints.push(taint("node.cloudprovider.kubernetes.io/uninitialized", Some("true")));
        }
        let provider_id = arguments.get("provider-id").map(str::to_owned);
        if provider_id.as_deref().is_some_and(|id| !id.contains("://") || id.ends_with("://")) {
            return Err(refused("provider-id is not PROVIDER://ID"));
        }
        Ok(Self {
            name: registration.name.clone(),
            kubernetes_version: format!("v{}", version.trim_start_matches('v')),
            provider_id,
            labels: label_flags(arguments.get("node-labels").unwrap_or_default())?,
            taints,
            control_plane,
        })
    }

    /// Returns the labels that this release's kubeadm sets on a control plane node.
    pub fn control_plane_labels(&self) -> BTreeMap<String, String> {
        let old = minor(&self.kubernetes_version) < 24;
        [CONTROL_PLANE, "node.kubernetes.io/exclude-from-external-load-balancers"]
            .into_iter()
            .chain(old.then_some(MASTER))
            .map(|label| (label.to_owned(), String::new()))
            .collect()
    }
}

/// Returns the Kubernetes version in a release label or node image name: `v1.26.5+vmware.2` for
/// `v1.26.5_vmware.2-tkg.1`. Returns `None` if `text` doesn't begin with a valid version.
pub fn release_version(text: &str) -> Option<String> {
    let version = text.replace("---", "+").replacen('_', "+", 1);
    let end = ["-tkg", "-vkr", "-guest"]
        .iter()
        .filter_map(|mark| version.find(mark))
        .min()
        .unwrap_or(version.len());
    let version = &version[..end];
    semver::Version::parse(version.trim_start_matches('v')).ok()?;
    Some(format!("v{}", version.trim_start_matches('v')))
}

fn default_taints(control_plane: bool, version: &str) -> Vec<Taint> {
    let names: &[&str] = match (control_plane, minor(version)) {
        (false, _) => &[],
        (true, 25..) => &[CONTROL_PLANE],
        // Older releases use the former name, but current Cluster API expects the new name.
        (true, _) => &[CONTROL_PLANE, MASTER],
    };
    names.iter().map(|name| taint(name, None)).collect()
}

fn taint(key: &str, value: Option<&str>) -> Taint {
    Taint { key: key.into(), value: value.map(str::to_owned), effect: "NoSchedule".into(), time_added: None }
}

/// Parses taints: `key=value:effect,key:effect`.
fn taint_flags(flags: &str) -> Result<Vec<Taint>, Failure> {
    let one = |flag: &str| {
        let (key, effect) =
            flag.rsplit_once(':').ok_or_else(|| refused("register-with-taints has no effect"))?;
        if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(refused("register-with-taints has an unknown effect"));
        }
        let (key, value) =
            key.split_once('=').map_or((key, None), |(key, value)| (key, Some(value.to_owned())));
        Ok(Taint { key: key.into(), value, effect: effect.into(), time_added: None })
    };
    flags.split(',').filter(|flag| !flag.is_empty()).map(one).collect()
}

/// Parses labels: `key=value,key=value`. Rejects invalid values, and labels that are reserved for Kubernetes, as the
/// kubelet does.
fn label_flags(flags: &str) -> Result<BTreeMap<String, String>, Failure> {
    let one = |flag: &str| {
        let (key, value) =
            flag.split_once('=').ok_or_else(|| refused(&format!("node-labels: {flag:?} has no value")))?;
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_below =
            |owners: &[&str]| owners.iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")));
        let allowed = ["kubelet.kubernetes.io", "node.kubernetes.io", "topology.kubernetes.io"];
        if is_below(&["kubernetes.io", "k8s.io"]) && !is_below(&allowed) {
            return Err(refused(&format!(
                "unknown 'kubernetes.io' or 'k8s.io' label specified with --node-labels: {key}"
            )));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if value.len() > 63 || !value.chars().all(fits) || key.is_empty() {
            return Err(refused(&format!("node-labels: {key} has a value that no label can have")));
        }
        Ok((key.to_owned(), value.to_owned()))
    };
    flags.split(',').filter(|flag| !flag.is_empty()).map(one).collect()
}

fn refused(what: &str) -> Failure {
    Failure::new(Reason::Registration, format!("kubelet: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::GuestAddress;
    use crate::guest::kubeadm::Arguments;

    fn registration(arguments: &[(&str, &str)]) -> NodeRegistration {
        let arguments =
            arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        NodeRegistration {
            name: "n-0".into(),
            kubelet_extra_args: Arguments(arguments),
            ..NodeRegistration::default()
        }
    }

    #[test]
    fn the_kubelets_arguments_become_the_node() {
        let arguments = [
            ("provider-id", "vsphere://u"),
            ("node-labels", "run.tanzu.vmware.com/kubernetesDistributionVersion=v1.26.5_vmware.2-tkg.1,a=b"),
            ("register-with-taints", "x=y:NoExecute"),
        ];
        let made = Registration::of(&registration(&arguments), "1.26.5+vmware.2", true).unwrap();
        let node = made.node(GuestAddress::served_on([127, 9, 1, 1].into()), true).unwrap();
        let spec = node.spec.unwrap();
        assert_eq!(spec.provider_id.as_deref(), Some("vsphere://u"));
        let taints: Vec<_> =
            spec.taints.unwrap().into_iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
        assert_eq!(taints, ["node-role.kubernetes.io/control-plane:NoSchedule", "x:NoExecute"]);
        assert_eq!(node.metadata.labels.unwrap()["a"], "b");
        let status = node.status.unwrap();
        assert_eq!(status.node_info.unwrap().kubelet_version, "v1.26.5+vmware.2");
        assert_eq!(status.addresses.unwrap()[0].address, "127.9.1.1");
    }

    #[test]
    fn what_a_kubelet_refuses_has_a_reason() {
        for arguments in [
            [("provider-ids", "vsphere://u")],
            [("provider-id", "")],
            [("provider-id", "vsphere://")],
            [("node-labels", "node-role.kubernetes.io/worker=")],
            [("node-labels", "a=b c")],
            [("register-with-taints", "a:Never")],
        ] {
            let failure = Registration::of(&registration(&arguments), "v1.33.0", false).unwrap_err();
            assert_eq!(failure.reason, Reason::Registration, "{arguments:?}");
        }
    }

    #[test]
    fn releases_are_read_from_labels_and_image_names() {
        for (text, version) in [
            ("v1.26.5_vmware.2-fips.1-tkg.1", Some("v1.26.5+vmware.2-fips.1")),
            ("v1.23.8---vmware.3-tkg.1", Some("v1.23.8+vmware.3")),
            ("v1.32.0---vmware.6-fips-vkr.2", Some("v1.32.0+vmware.6-fips")),
            ("v1.16.7_vmware.1-guest.1", Some("v1.16.7+vmware.1")),
            ("v1.33.1", Some("v1.33.1")),
            ("latest", None),
        ] {
            assert_eq!(release_version(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn older_control_planes_carry_both_names() {
        let taints = |version| default_taints(true, version).len();
        assert_eq!((taints("v1.23.8+vmware.3"), taints("v1.25.0")), (2, 1));
        assert_eq!(default_taints(false, "v1.33.0"), []);
    }
}
