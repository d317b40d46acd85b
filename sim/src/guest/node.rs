//! The Node, its lease and its static Pods, as the kubelet reports them to the API server.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::failure::Failure;
use super::registration::Registration;
use crate::addresses::GuestAddress;

const LEASE_SECONDS: i32 = 40;
/// The message that containerd reports until a container network is configured.
pub(super) const NO_NETWORK: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

impl Registration {
    /// Returns the Node as the kubelet creates it. `network` is true if a container network is configured.
    pub fn node(&self, address: GuestAddress, network: bool) -> Result<Node, Failure> {
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
            "status": self.status(address, network),
        });
        serde_json::from_value(node).map_err(|error| Failure::host("make the Node", &error))
    }

    /// Returns the Node's status. `network` is true if a container network is configured.
    pub fn status(&self, address: GuestAddress, network: bool) -> Value {
        let now = Timestamp::now().to_string();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        let ready = if network {
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        } else {
            condition("Ready", "False", "KubeletNotReady", NO_NETWORK)
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
                ready,
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

    /// Returns the BIOS UUID, which the provider ID contains on vSphere.
    fn uuid(&self) -> &str {
        self.provider_id.as_deref().and_then(|id| id.split_once("://")).map_or("", |(_, uuid)| uuid)
    }

    /// Returns the lease that shows that the kubelet is alive.
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
}

/// Returns the name of a static Pod's mirror Pod.
pub fn mirror_name(manifest: &Pod, owner: &OwnerReference) -> String {
    format!("{}-{}", manifest.metadata.name.as_deref().unwrap_or_default(), owner.name)
}

/// Returns the mirror Pod of a static Pod.
pub fn mirror(manifest: &Pod, owner: &OwnerReference) -> Pod {
    let mut pod = manifest.clone();
    let hash = format!("{:016x}{:016x}", fnv(&json!(manifest.spec).to_string()), fnv(&owner.name));
    pod.metadata.name = Some(mirror_name(manifest, owner));
    pod.metadata.owner_references = Some(vec![owner.clone()]);
    pod.metadata.annotations.get_or_insert_default().extend([
        ("kubernetes.io/config.hash".to_owned(), hash.clone()),
        ("kubernetes.io/config.mirror".to_owned(), hash),
        ("kubernetes.io/config.seen".to_owned(), Timestamp::now().to_string()),
        ("kubernetes.io/config.source".to_owned(), "file".to_owned()),
    ]);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(owner.name.clone());
    // Static Pods tolerate all NoExecute taints.
    spec.tolerations = serde_json::from_value(json!([{ "effect": "NoExecute", "operator": "Exists" }])).ok();
    pod
}

/// Returns the status of a static Pod. `running` is true if the Pod's process is running.
pub fn pod_status(manifest: &Pod, address: GuestAddress, running: bool, restarts: u32) -> Value {
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

/// Returns the FNV-1a hash. Any other hash would do as well, because the value only has to change with the content.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
