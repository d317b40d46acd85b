//! Templates of machines, the MachineDeployments of pools, and the health checks of both.

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
use crate::cluster::volumes::setup::{VolumesAs, unit_number};
use crate::spec::groups::{disk_class, zone};

/// The annotation of a MachineDeployment that says who decides about its replicas.
const REPLICAS_BY: &str = "run.tanzu.vmware.com/replicas-by";
/// The cluster's spec says how many.
const REPLICAS_BY_SPEC: &str = "spec";
/// An autoscaler, say, decides.
const REPLICAS_BY_OTHERS: &str = "others";
/// The smallest group of which the share is a whole machine: Cluster API rounds down.
const SHARED_FROM: i32 = 3;

/// The template of the control plane's machines, named after its content.
pub fn control_plane_template(input: &Input<'_>, kind: VolumesAs) -> WCPMachineTemplate {
    let ControlPlane { replicas: _, vm_class, storage_class, volumes, tkr: _, node_drain_timeout: _ } =
        &input.tkc.spec.topology.control_plane;
    let spec = machine_template_spec(input, vm_class, storage_class, volumes.as_deref(), kind);
    let name = names::control_plane_template(&input.name(), &content_of(&spec));
    WCPMachineTemplate { metadata: input.metadata(&name, &[]), spec, status: None }
}

/// The template of a pool's machines, named after its content.
pub fn pool_template(input: &Input<'_>, pool: &NodePool, kind: VolumesAs) -> WCPMachineTemplate {
    let volumes = pool.volumes.as_deref();
    let spec = machine_template_spec(input, &pool.vm_class, &pool.storage_class, volumes, kind);
    let name = names::pool_template(&input.name(), &pool.name, &content_of(&spec));
    let metadata = input.metadata(&name, &[(label::NODE_POOL, &pool.name)]);
    WCPMachineTemplate { metadata, spec, status: None }
}

fn machine_template_spec(
    input: &Input<'_>,
    class: &str,
    storage: &str,
    volumes: Option<&[Volume]>,
    kind: VolumesAs,
) -> WCPMachineTemplateSpec {
    let volumes = volumes.unwrap_or_default().iter().enumerate().map(|(at, volume)| {
        let Volume { name, mount_path, capacity, storage_class: _ } = volume;
        MachineVolume {
            name: name.clone(),
            mount_path: Some(mount_path.clone()),
            capacity: capacity.clone(),
            storage_class: Some(disk_class(volume, storage).to_owned()),
            unit_number: (kind == VolumesAs::Disks).then(|| unit_number(at)),
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

/// The MachineDeployment of a pool. A pool without a number of replicas leaves them to somebody else.
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

/// A new machine is there before an old one goes, one at a time.
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

/// The replicas of a pool that its cluster decided about and leaves to others from now on, as a document to apply.
///
/// It is written as JSON because the type would send, and so claim, every required field.
pub fn handed_over(intent: &MachineDeployment, live: &MachineDeployment) -> Option<Value> {
    let was_ours = live.annotations().get(REPLICAS_BY).is_some_and(|by| by == REPLICAS_BY_SPEC);
    let replicas = live.spec.replicas.filter(|_| was_ours && intent.spec.replicas.is_none())?;
    Some(json!({
        "apiVersion": MachineDeployment::api_version(&()),
        "kind": MachineDeployment::kind(&()),
        "metadata": {
            "name": intent.name_any(),
            "namespace": intent.namespace(),
            // Who decided meanwhile is not overruled: a conflict, and the next look takes what there is then.
            "uid": live.uid(),
            "resourceVersion": live.resource_version(),
        },
        "spec": { "replicas": replicas },
    }))
}

/// The health check of the control plane's machines.
pub fn control_plane_check(input: &GroupInput<'_>) -> MachineHealthCheck {
    let replicas = input.cluster.tkc.spec.topology.control_plane.replicas.or(Some(1));
    let most = most_unhealthy(replicas, &input.health.max_unhealthy);
    health_check(input, &names::control_plane(&input.cluster.name()), (label::CONTROL_PLANE, ""), most)
}

/// The health check of a pool's machines; it has the name of the pool's MachineDeployment, whose suffix keeps pool
/// `b-c` of cluster `a` and pool `c` of cluster `a-b` apart.
///
/// `live` is the pool's MachineDeployment: it knows how many machines there are where the cluster leaves that to others.
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

/// How many machines of a group may be unhealthy and still be replaced. One always may: else the only machine of a
/// group, or one of two, would never be.
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
