//! Simulates how the kubelet runs the Pods that are bound to its node. Pods don't have processes, unless they run a
//! known script with the node's shell. The visible effects are the Pod status and the container network configuration
//! that a network plugin's Pod writes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::container_images::containers;
use super::disk::Disk;
use super::guest_vm::GuestVm;
use super::program_pods::ProgramPods;
use crate::addresses::GuestAddress;

/// The folder for the container network configuration.
const NETWORK: &str = "/etc/cni/net.d";
/// The retry interval for Pods that can't run yet.
const AGAIN: Duration = Duration::from_secs(2);
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns true if a container network is configured on the node. The configuration is a file, so it survives reboots.
pub(super) fn has_network(disk: &Disk) -> bool {
    std::fs::read_dir(disk.path(NETWORK)).is_ok_and(|mut files| files.next().is_some())
}

/// The Pods that are bound to one node.
pub(super) struct NodePods {
    /// A client with the node's credentials.
    pub client: Client,
    pub node: String,
    pub guest_vm: GuestVm,
    /// Becomes true when the container network is configured.
    pub network: tokio::sync::watch::Sender<bool>,
    /// The processes of the node's Pods.
    pub programs: ProgramPods,
}

impl NodePods {
    /// Runs the Pods that are bound to the node, until the watch ends.
    pub(super) async fn run(self) {
        let all: Api<Pod> = Api::all(self.client.clone());
        let config = watcher::Config::default().fields(&format!("spec.nodeName={}", self.node));
        let mut events = std::pin::pin!(watcher(all, config).default_backoff());
        let mut waiting: BTreeMap<String, Pod> = BTreeMap::new();
        let mut again = tokio::time::interval(AGAIN);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod))) => {
                        waiting.insert(pod.uid().unwrap_or_default(), pod);
                    }
                    Some(Ok(watcher::Event::Delete(pod))) => {
                        waiting.remove(&pod.uid().unwrap_or_default());
                        self.programs.stop(&pod).await;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => tracing::debug!(node = self.node, %error, "the pods can't be watched"),
                    None => return,
                },
                _ = again.tick() => if !self.guest_vm.is_silent() {
                    self.programs.refresh(&self.client).await;
                },
            }
            if self.guest_vm.is_silent() {
                continue;
            }
            let mut left = BTreeMap::new();
            for (uid, pod) in waiting {
                if !self.settle(&pod).await {
                    left.insert(uid, pod);
                }
            }
            waiting = left;
        }
    }

    /// Reconciles one Pod. Returns false if the Pod needs another attempt.
    async fn settle(&self, pod: &Pod) -> bool {
        if pod.annotations().contains_key(MIRROR) {
            return true;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        if pod.metadata.deletion_timestamp.is_some() {
            self.programs.stop(pod).await;
            // A Pod with finalizers stays visible, so report that its containers have ended.
            if !pod.finalizers().is_empty() && !has_ended(pod) {
                let patch = Patch::Merge(json!({ "status": ended(pod) }));
                let reported = pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
                return matches!(reported, Err(kube::Error::Api(status)) if status.code == 404);
            }
            let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
            let now =
                DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
            return match pods.delete(&pod.name_any(), &now).await {
                Err(kube::Error::Api(status)) => matches!(status.code, 404 | 409),
                other => other.is_ok(),
            };
        }
        let obstacle = self.obstacle(pod).await;
        let status = match &obstacle {
            None => running(pod, self.guest_vm.address),
            Some(obstacle) => waiting(pod, self.guest_vm.address, obstacle),
        };
        if obstacle.is_none()
            && let Err(failure) = self.programs.start(pod, &self.client).await
        {
            tracing::debug!(node = self.node, %failure, "the program of a pod cannot be started");
            return false;
        }
        if shows(pod, obstacle.as_ref()) {
            return obstacle.is_none();
        }
        let patch = Patch::Merge(json!({ "status": status }));
        let reported = pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
        match (reported, obstacle) {
            (Ok(_), None) => {
                self.configure_network(pod);
                true
            }
            (Err(kube::Error::Api(status)), _) => status.code == 404,
            _ => false,
        }
    }

    /// Returns the reason why the Pod can't run yet, or `None` if the Pod can run.
    async fn obstacle(&self, pod: &Pod) -> Option<Obstacle> {
        if let Some((container, error)) = self.guest_vm.images.missing(&self.guest_vm.disk, pod) {
            let image = container.image.as_deref().unwrap_or_default();
            let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
            return Some(Obstacle { container: container.name.clone(), reason: "ImagePullBackOff", message });
        }
        let first = containers(pod).next().map(|container| container.name.clone()).unwrap_or_default();
        let creating = |message: String| {
            Some(Obstacle { container: first.clone(), reason: "ContainerCreating", message })
        };
        if let Some(missing) = self.missing_config_map(pod).await {
            return creating(missing);
        }
        if let Some(failure) = self.programs.explain_failure(pod) {
            return creating(failure);
        }
        let host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        if !host && !has_network(&self.guest_vm.disk) {
            return creating(format!("network is not ready: {}", super::node::NO_NETWORK));
        }
        None
    }

    async fn missing_config_map(&self, pod: &Pod) -> Option<String> {
        let namespace = pod.namespace().unwrap_or_default();
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            let Some(source) = volume.config_map.as_ref().filter(|map| map.optional != Some(true)) else {
                continue;
            };
            let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
            if maps.get(&source.name).await.is_err() {
                return Some(format!(
                    "MountVolume.SetUp failed for volume {:?} : configmap {:?} not found",
                    volume.name, source.name
                ));
            }
        }
        None
    }

    /// Writes the container network configuration if the Pod mounts the folder for it, as a network plugin's Pod does.
    fn configure_network(&self, pod: &Pod) {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let of_network = |path: &str| path.trim_end_matches('/') == NETWORK;
        let folder = volumes
            .iter()
            .find(|volume| volume.host_path.as_ref().is_some_and(|host| of_network(&host.path)));
        let mounts = |container: &Container| {
            let mounts = container.volume_mounts.as_deref().unwrap_or_default();
            folder.is_some_and(|folder| mounts.iter().any(|mount| mount.name == folder.name))
        };
        if containers(pod).any(mounts) {
            let written =
                self.guest_vm.disk.write(&format!("{NETWORK}/10-{}.conflist", pod.name_any()), "{}");
            self.network.send_replace(written.is_ok() && has_network(&self.guest_vm.disk));
        }
    }
}

/// The reason why a container waits.
struct Obstacle {
    container: String,
    reason: &'static str,
    message: String,
}

/// Returns true if the Pod's status already reports the obstacle or, without an obstacle, that the Pod is running and ready.
fn shows(pod: &Pod, obstacle: Option<&Obstacle>) -> bool {
    let Some(status) = &pod.status else { return false };
    let Some(obstacle) = obstacle else {
        return status.phase.as_deref() == Some("Running") && shows_ready(pod);
    };
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut waiting = all.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    waiting.any(|waiting| waiting.message.as_deref() == Some(obstacle.message.as_str()))
}

/// Returns true if the Pod's Ready condition is true.
pub(super) fn shows_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn conditions(scheduled_only: bool) -> Value {
    let now = Timestamp::now().to_string();
    let others = if scheduled_only { "False" } else { "True" };
    let types = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];
    let mut all: Vec<Value> = types
        .iter()
        .map(|kind| json!({ "type": kind, "status": others, "lastTransitionTime": now }))
        .collect();
    all.push(json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": now }));
    json!(all)
}

fn status_of(container: &Container, state: &Value, ready: bool) -> Value {
    json!({
        "name": container.name, "image": container.image.clone().unwrap_or_default(), "imageID": "",
        "ready": ready, "started": ready, "restartCount": 0, "state": state,
    })
}

fn running(pod: &Pod, address: GuestAddress) -> Value {
    let now = Timestamp::now().to_string();
    let spec = pod.spec.clone().unwrap_or_default();
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now } });
    let runs = json!({ "running": { "startedAt": now } });
    let init: Vec<_> =
        spec.init_containers.iter().flatten().map(|container| status_of(container, &done, true)).collect();
    let own: Vec<_> = spec.containers.iter().map(|container| status_of(container, &runs, true)).collect();
    let host = address.served.to_string();
    // A Pod address can't be reached: it is outside all ranges that the site uses.
    let ip = if spec.host_network == Some(true) { host.clone() } else { pod_address(pod) };
    json!({
        "phase": "Running", "hostIP": host, "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": now,
        "conditions": conditions(false), "initContainerStatuses": init, "containerStatuses": own,
    })
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the status of a Pod whose containers have ended. Keeps conditions from other writers.
fn ended(pod: &Pod) -> Value {
    let now = Timestamp::now().to_string();
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "finishedAt": now } });
    let spec = pod.spec.clone().unwrap_or_default();
    let own: Vec<_> = spec.containers.iter().map(|container| status_of(container, &done, false)).collect();
    let status = pod.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
    let readies = |kind: &str| matches!(kind, "Ready" | "ContainersReady");
    for condition in conditions.iter_mut().filter(|condition| readies(&condition.type_)) {
        "False".clone_into(&mut condition.status);
        condition.reason = Some("PodCompleted".to_owned());
    }
    json!({ "phase": "Succeeded", "conditions": conditions, "containerStatuses": own })
}

fn pod_address(pod: &Pod) -> String {
    let sum: u32 = pod
        .uid()
        .unwrap_or_default()
        .bytes()
        .fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("100.64.{}.{}", (sum >> 8) & 255, sum & 255)
}

fn waiting(pod: &Pod, address: GuestAddress, obstacle: &Obstacle) -> Value {
    let spec = pod.spec.clone().unwrap_or_default();
    let state = |container: &Container| {
        let (reason, message) = if container.name == obstacle.container {
            (obstacle.reason, obstacle.message.as_str())
        } else {
            ("PodInitializing", "")
        };
        status_of(container, &json!({ "waiting": { "reason": reason, "message": message } }), false)
    };
    let init: Vec<_> = spec.init_containers.iter().flatten().map(state).collect();
    let own: Vec<_> = spec.containers.iter().map(state).collect();
    json!({
        "phase": "Pending", "hostIP": address.served.to_string(), "startTime": Timestamp::now().to_string(),
        "conditions": conditions(true), "initContainerStatuses": init, "containerStatuses": own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_held_back_has_ended_and_keeps_what_others_wrote() {
        let condition = |kind: &str| json!({ "type": kind, "status": "True" });
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "held", "finalizers": ["example.com/held"] },
            "spec": { "containers": [{ "name": "main" }] },
            "status": { "phase": "Running", "conditions": [condition("Ready"), condition("DisruptionTarget")] },
        }))
        .unwrap();
        assert!(!has_ended(&pod));
        let status = ended(&pod);
        assert_eq!(status["conditions"][0]["status"], "False");
        assert_eq!(status["conditions"][1], condition("DisruptionTarget"));
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
        pod.status = serde_json::from_value(status).unwrap();
        assert!(has_ended(&pod));
    }
}
