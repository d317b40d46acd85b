//! Templates of machines, the MachineDeployments of pools, and the health checks of both.

use std::collections::BTreeMap;

use api::capi::{KubeadmConfigTemplate, MachineDeployment, MachineHealthCheck};
use api::capw::WCPMachineTemplate;
use api::gcm::parts::{ControlPlane, NodePool, Volume};
use api::names::{self, label};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::cluster::reference;
use super::kubeadm::drain_seconds;
use super::{Input, object};

/// The annotation of a MachineDeployment that says who decides about its replicas.
const REPLICAS_BY: &str = "run.tanzu.vmware.com/replicas-by";
/// The cluster's spec says how many.
const REPLICAS_BY_SPEC: &str = "spec";
/// An autoscaler, say, decides.
const REPLICAS_BY_OTHERS: &str = "others";
/// A node that says nothing this long is replaced.
const SILENT_SECONDS: i32 = 5 * 60;
/// A node that says it is not ready this long is replaced.
const NOT_READY_SECONDS: i32 = 12 * 60;
/// A machine whose node has not joined after this long is replaced.
const STARTUP_SECONDS: i32 = 2 * 60 * 60;

/// The template of the control plane's machines, named after its content.
pub fn control_plane_template(input: &Input<'_>) -> Result<WCPMachineTemplate, serde_json::Error> {
    let ControlPlane { replicas: _, vm_class, storage_class, volumes, tkr: _, node_drain_timeout: _ } =
        &input.tkc.spec.topology.control_plane;
    let spec = machine(input, vm_class, storage_class, volumes.as_deref());
    let name = names::control_plane_template(&input.name(), &spec.to_string());
    object(&input.metadata(&name, &[]), &spec)
}

/// The template of a pool's machines, named after its content.
pub fn pool_template(input: &Input<'_>, pool: &NodePool) -> Result<WCPMachineTemplate, serde_json::Error> {
    let spec = machine(input, &pool.vm_class, &pool.storage_class, pool.volumes.as_deref());
    let name = names::pool_template(&input.name(), &pool.name, &spec.to_string());
    object(&input.metadata(&name, &[(label::NODE_POOL, &pool.name)]), &spec)
}

fn machine(input: &Input<'_>, class: &str, storage: &str, volumes: Option<&[Volume]>) -> Value {
    let mut spec = json!({ "className": class, "imageName": input.image.name, "storageClass": storage });
    let volumes: Vec<Value> = volumes
        .unwrap_or_default()
        .iter()
        .map(|Volume { name, mount_path, capacity, storage_class }| {
            json!({
                "name": name,
                "mountPath": mount_path,
                "capacity": capacity,
                "storageClass": storage_class.as_deref().filter(|class| !class.is_empty()).unwrap_or(storage),
            })
        })
        .collect();
    if !volumes.is_empty() {
        spec["volumes"] = json!(volumes);
    }
    json!({ "template": { "spec": spec } })
}

/// The MachineDeployment of a pool. A pool without a number of replicas leaves them to somebody else.
pub fn deployment(
    input: &Input<'_>,
    pool: &NodePool,
    template: &str,
    config: &str,
) -> Result<MachineDeployment, serde_json::Error> {
    let NodePool {
        name,
        labels,
        taints: _,
        failure_domain,
        replicas,
        vm_class: _,
        storage_class: _,
        volumes: _,
        tkr: _,
        node_drain_timeout,
    } = pool;
    let cluster = input.name();
    let deployment = names::machine_deployment(&input.namespace(), &cluster, name);
    let selector = json!({ label::CLUSTER_NAME: cluster, label::DEPLOYMENT_NAME: deployment });
    let mut machine_labels: BTreeMap<&str, &str> =
        labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    machine_labels.extend([
        (label::CLUSTER_NAME, cluster.as_str()),
        (label::DEPLOYMENT_NAME, deployment.as_str()),
        (label::NODE_POOL, name.as_str()),
    ]);
    let mut machine = json!({
        "clusterName": cluster,
        "version": input.release.kubernetes,
        "bootstrap": { "configRef": reference::<KubeadmConfigTemplate>(config) },
        "infrastructureRef": reference::<WCPMachineTemplate>(template),
    });
    if let Some(domain) = failure_domain.as_ref().filter(|domain| !domain.is_empty()) {
        machine["failureDomain"] = json!(domain);
    }
    if let Some(seconds) = drain_seconds(node_drain_timeout.as_deref()) {
        machine["deletion"] = json!({ "nodeDrainTimeoutSeconds": seconds });
    }
    let mut spec = json!({
        "clusterName": cluster,
        "selector": { "matchLabels": selector },
        "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } },
        "template": { "metadata": { "labels": machine_labels }, "spec": machine },
    });
    if let Some(replicas) = replicas {
        spec["replicas"] = json!(replicas);
    }
    let mut metadata =
        input.metadata(&deployment, &[(label::NODE_POOL, name), (label::TKR, &input.release_label())]);
    let by = if replicas.is_some() { REPLICAS_BY_SPEC } else { REPLICAS_BY_OTHERS };
    metadata["annotations"] = json!({ REPLICAS_BY: by });
    object(&metadata, &spec)
}

/// The replicas of a pool that its cluster decided about and leaves to others from now on, as a document to apply.
pub fn handed_over(intent: &MachineDeployment, live: &MachineDeployment) -> Option<Value> {
    let was_ours = live.annotations().get(REPLICAS_BY).is_some_and(|by| by == REPLICAS_BY_SPEC);
    let replicas = live.spec.replicas.filter(|_| was_ours && intent.spec.replicas.is_none())?;
    Some(json!({
        "apiVersion": MachineDeployment::api_version(&()),
        "kind": MachineDeployment::kind(&()),
        "metadata": { "name": intent.name_any(), "namespace": intent.namespace() },
        "spec": { "replicas": replicas },
    }))
}

/// The health check of the control plane's machines.
pub fn control_plane_check(input: &Input<'_>) -> Result<MachineHealthCheck, serde_json::Error> {
    check(input, &names::control_plane(&input.name()), &[(label::CONTROL_PLANE, "")])
}

/// The health check of a pool's machines; it has the name of the pool's MachineDeployment, whose suffix keeps pool
/// `b-c` of cluster `a` and pool `c` of cluster `a-b` apart.
pub fn pool_check(input: &Input<'_>, pool: &NodePool) -> Result<MachineHealthCheck, serde_json::Error> {
    let deployment = names::machine_deployment(&input.namespace(), &input.name(), &pool.name);
    check(input, &deployment, &[(label::DEPLOYMENT_NAME, &deployment)])
}

fn check(
    input: &Input<'_>,
    name: &str,
    selector: &[(&str, &str)],
) -> Result<MachineHealthCheck, serde_json::Error> {
    let spec = json!({
        "clusterName": input.name(),
        "selector": { "matchLabels": selector.iter().copied().collect::<BTreeMap<_, _>>() },
        "checks": {
            "nodeStartupTimeoutSeconds": STARTUP_SECONDS,
            "unhealthyNodeConditions": [
                { "type": "Ready", "status": "Unknown", "timeoutSeconds": SILENT_SECONDS },
                { "type": "Ready", "status": "False", "timeoutSeconds": NOT_READY_SECONDS },
            ],
        },
        "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": "100%" } },
    });
    object(&input.metadata(name, &[]), &spec)
}
