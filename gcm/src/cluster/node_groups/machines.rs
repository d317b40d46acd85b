//! Builds machine templates, MachineDeployments and health checks.

use std::collections::BTreeMap;

use api::capi::{
    KubeadmConfigTemplate, MachineBootstrap, MachineDeletion, MachineDeployment, MachineDeploymentRollout,
    MachineDeploymentRolloutStrategy, MachineDeploymentRolloutStrategyRollingUpdate,
    MachineDeploymentRolloutStrategyType, MachineDeploymentSpec, MachineHealthCheck,
    MachineHealthCheckChecks, MachineHealthCheckChecksUnhealthyNodeConditions, MachineHealthCheckRemediation,
    MachineHealthCheckRemediationTriggerIf, MachineHealthCheckSpec, MachineSelector, MachineTemplate,
    MachineTemplateSpec, TemplateMetadata,
};
use api::capw::{
    MachineVolume, WCPMachineSpec, WCPMachineTemplate, WCPMachineTemplateResource, WCPMachineTemplateSpec,
};
use api::gcm::parts::{ControlPlane, NodePool, Volume};
use api::names::{self, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::bootstrap::{NODE_DELETION_SECONDS, drain_seconds};
use super::group_input::GroupInput;
use crate::autoscaling;
use crate::cluster::flags::health::HealthFlags;
use crate::cluster::input::{Input, content_of, reference_to};
use crate::cluster::volumes::unit_number;
use crate::spec::groups::{disk_class, zone};

/// The MachineDeployment annotation that records which component sets the replicas.
const REPLICAS_BY: &str = "run.tanzu.vmware.com/replicas-by";
/// The annotation's value if the cluster's spec sets the replicas.
const REPLICAS_BY_SPEC: &str = "spec";
/// The annotation's value if another component, such as an autoscaler, sets the replicas.
const REPLICAS_BY_OTHERS: &str = "others";
/// The smallest group size at which the default unhealthy share amounts to a whole machine. Cluster API rounds down.
const SHARED_FROM: i32 = 3;

/// Returns the template for control plane machines, named after its content.
pub fn control_plane_template(input: &Input<'_>) -> WCPMachineTemplate {
    let ControlPlane { replicas: _, vm_class, storage_class, volumes, tkr: _, node_drain_timeout: _ } =
        &input.tkc.spec.topology.control_plane;
    let spec = machine_template_spec(input, vm_class, storage_class, volumes.as_deref());
    let name = names::control_plane_template(&input.name(), &content_of(&spec));
    WCPMachineTemplate { metadata: input.metadata(&name, &[]), spec, status: None }
}

/// Returns the template for a pool's machines, named after its content.
pub fn pool_template(input: &Input<'_>, pool: &NodePool) -> WCPMachineTemplate {
    let volumes = pool.volumes.as_deref();
    let spec = machine_template_spec(input, &pool.vm_class, &pool.storage_class, volumes);
    let name = names::pool_template(&input.name(), &pool.name, &content_of(&spec));
    let metadata = input.metadata(&name, &[(label::NODE_POOL, &pool.name)]);
    WCPMachineTemplate { metadata, spec, status: None }
}

fn machine_template_spec(
    input: &Input<'_>,
    class: &str,
    storage: &str,
    volumes: Option<&[Volume]>,
) -> WCPMachineTemplateSpec {
    let volumes = volumes.unwrap_or_default().iter().enumerate().map(|(at, volume)| {
        let Volume { name, mount_path, capacity, storage_class: _ } = volume;
        MachineVolume {
            name: name.clone(),
            mount_path: Some(mount_path.clone()),
            capacity: capacity.clone(),
            storage_class: Some(disk_class(volume, storage).to_owned()),
            unit_number: Some(unit_number(at)),
        }
    });
    let spec = WCPMachineSpec {
        class_name: class.to_owned(),
        image_name: input.image.name.clone(),
        storage_class: storage.to_owned(),
        volumes: volumes.collect(),
        ..WCPMachineSpec::default()
    };
    WCPMachineTemplateSpec { template: WCPMachineTemplateResource { spec, ..Default::default() } }
}

/// Returns a pool's MachineDeployment. `template` and `config` are the names of its templates. Without replicas in the pool,
/// another component sets the replicas.
pub fn deployment(input: &Input<'_>, pool: &NodePool, template: &str, config: &str) -> MachineDeployment {
    let NodePool {
        name,
        labels,
        taints: _,
        failure_domain: _,
        replicas,
        vm_class: _,
        storage_class: _,
        volumes: _,
        tkr: _,
        node_drain_timeout: _,
    } = pool;
    let deployment = names::machine_deployment(&input.namespace(), &input.name(), name);
    let selector = BTreeMap::from([
        (label::CLUSTER_NAME.to_owned(), input.name()),
        (label::DEPLOYMENT_NAME.to_owned(), deployment.clone()),
    ]);
    let mut machine_labels = labels.clone().unwrap_or_default();
    machine_labels.extend(selector.clone());
    machine_labels.insert(label::NODE_POOL.to_owned(), name.clone());
    MachineDeployment {
        metadata: deployment_metadata(input, &deployment, pool),
        spec: MachineDeploymentSpec {
            cluster_name: input.name(),
            selector: MachineSelector { match_labels: Some(selector), ..MachineSelector::default() },
            rollout: Some(one_more_at_a_time()),
            template: MachineTemplate {
                metadata: Some(TemplateMetadata {
                    labels: Some(machine_labels),
                    ..TemplateMetadata::default()
                }),
                spec: machine_spec(input, pool, template, config),
            },
            replicas: *replicas,
            ..MachineDeploymentSpec::default()
        },
        status: None,
    }
}

fn deployment_metadata(input: &Input<'_>, deployment: &str, pool: &NodePool) -> ObjectMeta {
    let by = if pool.replicas.is_some() { REPLICAS_BY_SPEC } else { REPLICAS_BY_OTHERS };
    let labels = [(label::NODE_POOL, pool.name.as_str()), (label::TKR, &input.release_label())];
    let mut annotations = autoscaling::annotations(input.tkc, pool);
    annotations.insert(REPLICAS_BY.to_owned(), by.to_owned());
    ObjectMeta { annotations: Some(annotations), ..input.metadata(deployment, &labels) }
}

/// Returns a rollout strategy that replaces one machine at a time, and deletes the old machine when the new one is ready.
fn one_more_at_a_time() -> MachineDeploymentRollout {
    MachineDeploymentRollout {
        strategy: Some(MachineDeploymentRolloutStrategy {
            r#type: MachineDeploymentRolloutStrategyType::RollingUpdate,
            rolling_update: Some(MachineDeploymentRolloutStrategyRollingUpdate {
                max_surge: Some(IntOrString::Int(1)),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
        }),
        ..MachineDeploymentRollout::default()
    }
}

fn machine_spec(input: &Input<'_>, pool: &NodePool, template: &str, config: &str) -> MachineTemplateSpec {
    MachineTemplateSpec {
        cluster_name: input.name(),
        version: Some(input.release.kubernetes.clone()),
        bootstrap: MachineBootstrap {
            config_ref: Some(reference_to::<KubeadmConfigTemplate>(config)),
            ..MachineBootstrap::default()
        },
        infrastructure_ref: reference_to::<WCPMachineTemplate>(template),
        failure_domain: zone(pool).cloned(),
        deletion: Some(MachineDeletion {
            node_drain_timeout_seconds: drain_seconds(pool.node_drain_timeout.as_deref()),
            node_deletion_timeout_seconds: Some(NODE_DELETION_SECONDS),
            ..MachineDeletion::default()
        }),
        ..MachineTemplateSpec::default()
    }
}

/// Returns a document that applies the live replicas, if the cluster's spec stops setting the replicas.
///
/// The document is plain JSON. A serialized MachineDeployment would contain every required field, and gcm would thus claim these
/// fields.
pub fn hand_over_replicas(intent: &MachineDeployment, live: &MachineDeployment) -> Option<Value> {
    let was_ours = live.annotations().get(REPLICAS_BY).is_some_and(|by| by == REPLICAS_BY_SPEC);
    let replicas = live.spec.replicas.filter(|_| was_ours && intent.spec.replicas.is_none())?;
    Some(json!({
        "apiVersion": MachineDeployment::api_version(&()),
        "kind": MachineDeployment::kind(&()),
        "metadata": {
            "name": intent.name_any(),
            "namespace": intent.namespace(),
            // If another client writes in the meantime, this fails with a conflict, and the next reconcile reads the new value.
            "uid": live.uid(),
            "resourceVersion": live.resource_version(),
        },
        "spec": { "replicas": replicas },
    }))
}

/// Returns the health check for control plane machines.
pub fn control_plane_check(input: &GroupInput<'_>) -> MachineHealthCheck {
    let replicas = input.cluster.tkc.spec.topology.control_plane.replicas.or(Some(1));
    let most = most_unhealthy(replicas, &input.health.max_unhealthy);
    health_check(input, &names::control_plane(&input.cluster.name()), (label::CONTROL_PLANE, ""), most)
}

/// Returns the health check for a pool's machines. It is named after the MachineDeployment, whose suffix distinguishes pool
/// `b-c` in cluster `a` from pool `c` in cluster `a-b`. If the pool's remediation budget is spent, the check doesn't replace
/// machines.
///
/// `live` is the pool's MachineDeployment. It provides the replicas if the cluster's spec doesn't set them.
pub fn pool_check(
    input: &GroupInput<'_>,
    pool: &NodePool,
    live: Option<&MachineDeployment>,
) -> MachineHealthCheck {
    let deployment = names::machine_deployment(&input.cluster.namespace(), &input.cluster.name(), &pool.name);
    let replicas = pool.replicas.or_else(|| live?.spec.replicas);
    let most = if input.unreplaced.contains(&pool.name) {
        IntOrString::Int(0)
    } else {
        most_unhealthy(replicas, &input.health.max_unhealthy)
    };
    health_check(input, &deployment, (label::DEPLOYMENT_NAME, &deployment), most)
}

/// Returns the limit for unhealthy machines: a number, or the `share` of the group. Above the limit, unhealthy machines aren't
/// replaced. A group of one or two machines has the limit 1, because the default share would round down to 0.
fn most_unhealthy(replicas: Option<i32>, share: &str) -> IntOrString {
    match replicas {
        Some(few) if (1..SHARED_FROM).contains(&few) => IntOrString::Int(1),
        _ => IntOrString::String(share.to_owned()),
    }
}

fn health_check(
    input: &GroupInput<'_>,
    name: &str,
    (key, value): (&str, &str),
    most_unhealthy: IntOrString,
) -> MachineHealthCheck {
    let HealthFlags { node_startup_timeout, node_silent_timeout, node_not_ready_timeout, .. } = input.health;
    let unready = |status: &str, timeout_seconds| MachineHealthCheckChecksUnhealthyNodeConditions {
        r#type: "Ready".to_owned(),
        status: status.to_owned(),
        timeout_seconds,
    };
    MachineHealthCheck {
        metadata: input.cluster.metadata(name, &[]),
        spec: MachineHealthCheckSpec {
            cluster_name: input.cluster.name(),
            selector: MachineSelector {
                match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
                ..MachineSelector::default()
            },
            checks: Some(MachineHealthCheckChecks {
                node_startup_timeout_seconds: Some(*node_startup_timeout),
                unhealthy_node_conditions: Some(vec![
                    unready("Unknown", *node_silent_timeout),
                    unready("False", *node_not_ready_timeout),
                ]),
                ..MachineHealthCheckChecks::default()
            }),
            remediation: Some(MachineHealthCheckRemediation {
                trigger_if: Some(MachineHealthCheckRemediationTriggerIf {
                    unhealthy_less_than_or_equal_to: Some(most_unhealthy),
                    ..MachineHealthCheckRemediationTriggerIf::default()
                }),
                ..MachineHealthCheckRemediation::default()
            }),
        },
        status: None,
    }
}
