//! The Node and its static pods, as the kubelet of a release shows them to the API server.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::failure::{Failure, Reason};
use super::kubeadm::NodeRegistration;
use crate::addresses::Address;

/// The label and taint of control planes.
pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Their name up to 1.24.
const MASTER: &str = "node-role.kubernetes.io/master";
const LEASE_SECONDS: i32 = 40;

/// What the kubelet was started with; kept on the disk for a reboot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// The node's name.
    pub name: String,
    /// Its version, with a `v`.
    pub kubernetes_version: String,
    /// From `provider-id`.
    pub provider_id: Option<String>,
    /// From `node-labels`.
    pub labels: BTreeMap<String, String>,
    /// From the configuration's taints and `register-with-taints`.
    pub taints: Vec<Taint>,
    /// Whether it is a control plane.
    pub control_plane: bool,
}

/// Flags that a kubelet of any supported release has; another one makes it exit.
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
    /// What kubeadm's node registration makes of the kubelet.
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

    /// The Node as the kubelet creates it.
    pub fn node(&self, address: Address) -> Result<Node, Failure> {
        let mut labels = self.labels.clone();
        labels.extend([
            ("kubernetes.io/hostname".to_owned(), self.name.clone()),
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
        ]);
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.name, "labels": labels },
            "spec": { "providerID": self.provider_id, "taints": self.taints },
            "status": self.status(address),
        });
        serde_json::from_value(node).map_err(|error| Failure::host("make the Node", &error))
    }

    /// The Node's status.
    pub fn status(&self, address: Address) -> Value {
        let now = Timestamp::now().to_string();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        let resources = json!({ "cpu": "2", "memory": "4096Mi", "pods": "110", "ephemeral-storage": "16Gi" });
        json!({
            "addresses": [
                { "type": "InternalIP", "address": address.served.to_string() },
                { "type": "Hostname", "address": self.name },
            ],
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.0.0",
                "kernelVersion": "6.1.0", "kubeProxyVersion": self.kubernetes_version,
                "kubeletVersion": self.kubernetes_version, "machineID": "", "operatingSystem": "linux",
                "osImage": "Layercake guest", "systemUUID": self.uuid(),
            },
        })
    }

    /// The BIOS UUID, which on vSphere is what the provider ID names.
    fn uuid(&self) -> &str {
        self.provider_id.as_deref().and_then(|id| id.split_once("://")).map_or("", |(_, uuid)| uuid)
    }

    /// The lease that says that the kubelet is alive.
    pub fn lease(&self, owner: &OwnerReference) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some("kube-node-lease".into()),
                owner_references: Some(vec![OwnerReference { controller: None, ..owner.clone() }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        }
    }

    /// The labels that `kubeadm` puts on a control plane, as the release does.
    pub fn control_plane_labels(&self) -> BTreeMap<String, String> {
        let old = minor(&self.kubernetes_version) < 24;
        [CONTROL_PLANE, "node.kubernetes.io/exclude-from-external-load-balancers"]
            .into_iter()
            .chain(old.then_some(MASTER))
            .map(|label| (label.to_owned(), String::new()))
            .collect()
    }
}

/// The mirror of a static pod.
pub fn mirror(manifest: &Pod, owner: &OwnerReference) -> Pod {
    let mut pod = manifest.clone();
    let name = manifest.metadata.name.clone().unwrap_or_default();
    let hash = format!("{:016x}{:016x}", fnv(&json!(manifest.spec).to_string()), fnv(&owner.name));
    pod.metadata.name = Some(format!("{name}-{}", owner.name));
    pod.metadata.owner_references = Some(vec![owner.clone()]);
    pod.metadata.annotations.get_or_insert_default().extend([
        ("kubernetes.io/config.hash".to_owned(), hash.clone()),
        ("kubernetes.io/config.mirror".to_owned(), hash),
        ("kubernetes.io/config.seen".to_owned(), Timestamp::now().to_string()),
        ("kubernetes.io/config.source".to_owned(), "file".to_owned()),
    ]);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(owner.name.clone());
    // Static pods tolerate what their node is tainted with.
    spec.tolerations = serde_json::from_value(json!([{ "effect": "NoExecute", "operator": "Exists" }])).ok();
    pod
}

/// The status of a static pod whose process runs, or does not.
pub fn pod_status(manifest: &Pod, address: Address, running: bool, restarts: u32) -> Value {
    let now = Timestamp::now().to_string();
    let ready = if running { "True" } else { "False" };
    let condition =
        |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": now });
    let container = manifest.spec.as_ref().and_then(|spec| spec.containers.first());
    let state = if running {
        json!({ "running": { "startedAt": now } })
    } else {
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "the process has ended and is started again" } })
    };
    json!({
        "phase": "Running",
        "hostIP": address.served.to_string(),
        "podIP": address.served.to_string(),
        "podIPs": [{ "ip": address.served.to_string() }],
        "startTime": now,
        "conditions": [
            condition("PodReadyToStartContainers", "True"),
            condition("Initialized", "True"),
            condition("Ready", ready),
            condition("ContainersReady", ready),
            condition("PodScheduled", "True"),
        ],
        "containerStatuses": [{
            "name": container.map(|container| container.name.clone()).unwrap_or_default(),
            "image": container.and_then(|container| container.image.clone()).unwrap_or_default(),
            "imageID": "",
            "ready": running,
            "started": running,
            "restartCount": restarts,
            "state": state,
        }],
    })
}

/// The release that a node label or a node image's name tells: `v1.26.5_vmware.2-tkg.1` is `v1.26.5+vmware.2`.
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

/// The minor number of a Kubernetes version; 0 if it has none.
pub fn minor(version: &str) -> u64 {
    semver::Version::parse(version.trim_start_matches('v')).map_or(0, |version| version.minor)
}

fn default_taints(control_plane: bool, version: &str) -> Vec<Taint> {
    let names: &[&str] = match (control_plane, minor(version)) {
        (false, _) => &[],
        (true, 25..) => &[CONTROL_PLANE],
        // Older releases taint with the old name; Cluster API of today asks for the new one.
        (true, _) => &[CONTROL_PLANE, MASTER],
    };
    names.iter().map(|name| taint(name, None)).collect()
}

fn taint(key: &str, value: Option<&str>) -> Taint {
    Taint { key: key.into(), value: value.map(str::to_owned), effect: "NoSchedule".into(), time_added: None }
}

/// `key=value:effect,key:effect`.
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

/// `key=value,key=value`; labels of Kubernetes itself are refused, as the kubelet does.
fn label_flags(flags: &str) -> Result<BTreeMap<String, String>, Failure> {
    let one = |flag: &str| {
        let (key, value) =
            flag.split_once('=').ok_or_else(|| refused(&format!("node-labels: {flag:?} has no value")))?;
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let reserved = ["kubernetes.io", "k8s.io"]
            .iter()
            .any(|own| domain == *own || domain.ends_with(&format!(".{own}")));
        let allowed = ["kubelet.kubernetes.io", "node.kubernetes.io", "topology.kubernetes.io"];
        if reserved && !allowed.iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}"))) {
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

/// FNV-1a, as good as any for a name that only has to change with its content.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let node = made.node(Address::served_on([127, 9, 1, 1].into())).unwrap();
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
