//! What a WCPMachine needs: an identity, then what to boot from, then a VirtualMachine. Pure.

use super::gather::{Bootstrap, Facts, is_made};
use crate::upstream::{Claim, MENDED, claim, infrastructure_provisioned, is_control_plane};
use api::{
    capi::{Cluster, Machine},
    capw::{MachineVolume, WCPMachine},
    conditions::{contract, wcp_machine as reasons},
    names::{self, annotation, finalizer, label},
    vmop::{
        NETWORK_TYPE_NSX_T, POWERED_ON, PersistentVolumeClaimVolume, Probe, TRANSPORT_EXTRA_CONFIG,
        TcpSocketAction, VirtualMachine, VirtualMachineMetadata, VirtualMachineNetworkInterface,
        VirtualMachineSpec, VirtualMachineVolume,
    },
};
use cloudinit::Metadata;
use k8s_openapi::{
    ByteString,
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, VolumeResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use kit::{apply::controlled_by, events::named};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use std::{collections::BTreeMap, time::Duration};
use uuid::Uuid;

/// What is to be done, in this order.
pub struct Plan {
    /// The providerID to persist, with the finalizer, before anything else exists.
    pub identity: Option<String>,
    /// What comes after.
    pub then: Then,
}

/// What comes after the identity.
pub enum Then {
    /// Nothing yet.
    Wait(Waiting),
    /// Nothing ever: the virtual machine was there and is gone.
    Lost,
    /// This.
    Make(Box<Make>),
}

/// The objects a machine consists of. The Secret is never printed.
pub struct Make {
    /// What the node boots from, unless it is there already.
    pub cloud_init: Option<Secret>,
    /// Claims of further disks, while the virtual machine is not made.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The virtual machine.
    pub vm: VirtualMachine,
}

/// What only the user can put right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Somebody else has an object of the name we need.
    #[error("{0} belongs to another owner: rename or delete it, or the Machine of its name")]
    NameTaken(String),
    /// The providerID is not one that we can give a virtual machine.
    #[error("spec.providerID {0:?} is not vsphere:// followed by a UUID: leave it out to have one drawn")]
    ProviderId(String),
    /// The bootstrap data is not what a node of ours boots from.
    #[error("bootstrap data in Secret {secret}: {what}")]
    Bootstrap {
        /// Name of the Secret.
        secret: String,
        /// What is wrong with it, and what to do.
        what: String,
    },
}

impl Invalid {
    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NameTaken(_) => contract::NAME_TAKEN,
            Self::ProviderId(_) => contract::PROVIDER_ID_INVALID,
            Self::Bootstrap { .. } => contract::BOOTSTRAP_DATA_INVALID,
        }
    }

    /// When to look again: no watch tells of a bootstrap Secret or of another's object.
    pub fn look_again(&self) -> Option<Duration> {
        (!matches!(self, Self::ProviderId(_))).then_some(MENDED)
    }
}

/// What must happen first.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Waiting {
    /// Cluster API has not made a Machine the owner yet.
    #[error("no Machine owns this WCPMachine yet")]
    Owner,
    /// Without the Cluster nobody knows whether work on it is paused.
    #[error("Cluster {0} is not there")]
    Cluster(String),
    /// The cluster's network and endpoint are not there yet.
    #[error("Cluster {0} has no infrastructure yet")]
    ClusterInfrastructure(String),
    /// Cluster API has not made the bootstrap data yet.
    #[error("Machine {0} has no bootstrap data yet")]
    BootstrapData(String),
    /// The bootstrap data's Secret is not there (yet).
    #[error("Secret {0} with the bootstrap data is missing")]
    BootstrapSecret(String),
    /// An object of a former WCPMachine of this name is still there.
    #[error("{0} of a former WCPMachine is still going away")]
    Former(String),
    /// The Machine goes away before it was made.
    #[error("Machine {0} is being deleted")]
    MachineDeleted(String),
    /// The virtual machine is being deleted.
    #[error("{0} is being deleted")]
    VirtualMachineGone(String),
}

impl Waiting {
    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Owner => reasons::WAITING_FOR_OWNER_MACHINE,
            Self::Cluster(_) | Self::ClusterInfrastructure(_) => {
                contract::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY
            }
            Self::BootstrapData(_) | Self::BootstrapSecret(_) => reasons::WAITING_FOR_BOOTSTRAP_DATA,
            Self::Former(_) => contract::WAITING_FOR_FORMER_OBJECT,
            Self::MachineDeleted(_) | Self::VirtualMachineGone(_) => contract::DELETING,
        }
    }

    /// When to look again where no watch tells.
    pub fn look_again(&self) -> Option<Duration> {
        matches!(self, Self::BootstrapSecret(_)).then_some(Duration::from_secs(5))
    }
}

/// What `machine` needs, given the facts.
pub fn plan(machine: &WCPMachine, facts: &Facts) -> Result<Plan, Invalid> {
    let wait = |waiting| Ok(Plan { identity: None, then: Then::Wait(waiting) });
    let Some(owner) = facts.machine.as_deref() else { return wait(Waiting::Owner) };
    let Some(cluster) = facts.cluster.as_deref() else {
        return wait(Waiting::Cluster(owner.spec.cluster_name.clone()));
    };
    let identity = identity(machine)?.unwrap_or_else(|| Identity::of(facts.drawn));
    let persisted = machine.spec.provider_id.is_some()
        && machine.finalizers().iter().any(|there| there == finalizer::WCP_MACHINE);
    let then = then(machine, owner, cluster, facts, &identity)?;
    Ok(Plan { identity: (!persisted).then_some(identity.provider_id), then })
}

/// Who the node is.
struct Identity {
    /// As vCenter writes it.
    uuid: String,
    /// As the WCPMachine has it: Cluster API wants to read the very same of the Node.
    provider_id: String,
}

impl Identity {
    fn of(uuid: Uuid) -> Self {
        let uuid = uuid.hyphenated().to_string();
        Self { provider_id: names::provider_id(&uuid), uuid }
    }
}

/// The identity that the machine has, if it has one.
fn identity(machine: &WCPMachine) -> Result<Option<Identity>, Invalid> {
    let Some(own) = &machine.spec.provider_id else { return Ok(None) };
    let uuid = names::uuid_of(own).and_then(|uuid| Uuid::try_parse(uuid).ok());
    let uuid = uuid.ok_or_else(|| Invalid::ProviderId(own.clone()))?;
    Ok(Some(Identity { provider_id: own.clone(), ..Identity::of(uuid) }))
}

/// Whose the virtual machine of the Machine's name is. One without an owner is ours if it has our identity.
pub fn whose(machine: &WCPMachine, vm: Option<&VirtualMachine>) -> Claim {
    claim(machine, vm, |vm| {
        let own = identity(machine).ok().flatten();
        own.is_some_and(|own| vm.spec.bios_uuid.as_ref() == Some(&own.uuid))
    })
}

fn then(
    machine: &WCPMachine,
    owner: &Machine,
    cluster: &Cluster,
    facts: &Facts,
    identity: &Identity,
) -> Result<Then, Invalid> {
    let vm = facts.vm.as_deref();
    match (whose(machine, vm), vm) {
        (Claim::Taken, Some(vm)) => return Err(Invalid::NameTaken(named(vm))),
        (Claim::Former, Some(vm)) => return Ok(Then::Wait(Waiting::Former(named(vm)))),
        (_, Some(vm)) if vm.meta().deletion_timestamp.is_some() => {
            let gone = Waiting::VirtualMachineGone(named(vm));
            return Ok(if existed(machine, owner) { Then::Lost } else { Then::Wait(gone) });
        }
        (_, None) if existed(machine, owner) => return Ok(Then::Lost),
        (_, None) if owner.meta().deletion_timestamp.is_some() => {
            return Ok(Then::Wait(Waiting::MachineDeleted(owner.name_any())));
        }
        _ => {}
    }
    if !infrastructure_provisioned(cluster) {
        return Ok(Then::Wait(Waiting::ClusterInfrastructure(cluster.name_any())));
    }
    let made = vm.is_some_and(is_made);
    let cloud_init = match &facts.bootstrap {
        _ if made => None,
        Bootstrap::Kept => None,
        Bootstrap::NotRead => return Ok(Then::Wait(Waiting::BootstrapData(owner.name_any()))),
        Bootstrap::Missing(name) => return Ok(Then::Wait(Waiting::BootstrapSecret(name.clone()))),
        Bootstrap::Read(secret) => Some(cloud_init(machine, owner, cluster, identity, secret)?),
    };
    let volumes: &[MachineVolume] = if made { &[] } else { &machine.spec.volumes };
    let claims = volumes.iter().map(|volume| volume_claim(machine, owner, volume)).collect();
    let vm = virtual_machine(machine, owner, cluster, &identity.uuid);
    Ok(Then::Make(Box::new(Make { cloud_init, claims, vm })))
}

/// Whether the machine had a virtual machine once. Status does not survive a move; the Machine's providerID does.
pub fn existed(machine: &WCPMachine, owner: &Machine) -> bool {
    let status = machine.status.as_ref();
    let provisioned = status.and_then(|status| status.initialization.as_ref()?.provisioned).unwrap_or(false);
    provisioned || status.is_some_and(|status| status.vm_id.is_some()) || owner.spec.provider_id.is_some()
}

/// The Secret that the virtual machine boots from.
fn cloud_init(
    machine: &WCPMachine,
    owner: &Machine,
    cluster: &Cluster,
    identity: &Identity,
    bootstrap: &Secret,
) -> Result<Secret, Invalid> {
    let invalid = |what: String| Invalid::Bootstrap { secret: bootstrap.name_any(), what };
    let value = |key: &str| bootstrap.data.as_ref()?.get(key).map(|value| value.0.as_slice());
    if let Some(format) = value("format").filter(|format| !format.is_empty() && *format != b"cloud-config") {
        let format = String::from_utf8_lossy(format);
        return Err(invalid(format!(
            "format {format} can't be booted: set the bootstrap format to cloud-config"
        )));
    }
    let userdata = value("value").filter(|value| !value.is_empty());
    let userdata = userdata.ok_or_else(|| invalid("key value is missing or empty".into()))?;
    let mut metadata = Metadata::of_node(&owner.name_any(), &identity.provider_id);
    if is_control_plane(owner)
        && let Some(endpoint) = cluster.spec.control_plane_endpoint.as_ref()
        && let Some(host) = endpoint.host.as_deref().filter(|host| !host.is_empty())
    {
        let port = endpoint.port.unwrap_or(names::API_SERVER_PORT);
        metadata = metadata.with_control_plane_endpoint(format!("{host}:{port}"));
    }
    let keys = cloudinit::encode(&metadata, userdata, None).map_err(|error| invalid(error.to_string()))?;
    let data = keys.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect();
    let name = names::cloud_init_secret(&machine.name_any());
    Ok(Secret { metadata: child(machine, owner, name), data: Some(data), ..Secret::default() })
}

/// Metadata of what belongs to the machine.
fn child(machine: &WCPMachine, owner: &Machine, name: String) -> ObjectMeta {
    let cluster = (label::CLUSTER_NAME.to_owned(), owner.spec.cluster_name.clone());
    ObjectMeta {
        name: Some(name),
        namespace: machine.namespace(),
        labels: Some(BTreeMap::from([cluster])),
        owner_references: Some(vec![controlled_by(machine)]),
        ..ObjectMeta::default()
    }
}

/// Name of the claim of a further disk.
pub fn claim_name(owner: &str, volume: &MachineVolume) -> String {
    format!("{owner}-{}", volume.name)
}

fn volume_claim(machine: &WCPMachine, owner: &Machine, volume: &MachineVolume) -> PersistentVolumeClaim {
    let storage_class = volume.storage_class.as_ref().unwrap_or(&machine.spec.storage_class);
    let requests =
        volume.capacity.iter().map(|(name, size)| (name.clone(), Quantity(size.0.clone()))).collect();
    PersistentVolumeClaim {
        metadata: child(machine, owner, claim_name(&owner.name_any(), volume)),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some(requests), limits: None }),
            storage_class_name: Some(storage_class.clone()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// The whole intent of the virtual machine.
fn virtual_machine(machine: &WCPMachine, owner: &Machine, cluster: &Cluster, uuid: &str) -> VirtualMachine {
    let name = cluster.name_any();
    let control_plane = is_control_plane(owner);
    let mut vm = VirtualMachine::new(&owner.name_any(), spec(machine, owner, &name, uuid));
    let (group, tag) = if control_plane {
        (names::CONTROL_PLANE_GROUP.to_owned(), names::TAG_CONTROL_PLANE)
    } else {
        (names::worker_group(&name), names::TAG_WORKER)
    };
    vm.metadata.namespace = machine.namespace();
    vm.metadata.owner_references = Some(vec![controlled_by(machine)]);
    vm.metadata.labels = Some(labels(machine, owner, &name));
    vm.metadata.annotations = Some(BTreeMap::from([
        (annotation::CLUSTER_MODULE_GROUP.to_owned(), group),
        (annotation::VSPHERE_TAG.to_owned(), tag.to_owned()),
    ]));
    vm
}

fn labels(machine: &WCPMachine, owner: &Machine, cluster: &str) -> BTreeMap<String, String> {
    let role = if is_control_plane(owner) { names::ROLE_CONTROL_PLANE } else { names::ROLE_NODE };
    let mut labels: BTreeMap<String, String> = [
        (label::CAPW_CLUSTER_NAME, cluster),
        (label::CAPW_CLUSTER_ROLE, role),
        (label::CAPV_CLUSTER_NAME, cluster),
        (label::CAPV_CLUSTER_ROLE, role),
        (label::CLUSTER_NAME, cluster),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if let Some(deployment) = owner.labels().get(label::DEPLOYMENT_NAME) {
        labels.insert(label::DEPLOYMENT_NAME.to_owned(), deployment.clone());
    }
    if let Some(zone) = failure_domain(machine, owner) {
        labels.insert(label::ZONE.to_owned(), zone.to_owned());
    }
    labels
}

/// Where the machine is to be placed, if somebody said so.
pub fn failure_domain<'a>(machine: &'a WCPMachine, owner: &'a Machine) -> Option<&'a str> {
    let domain = owner.spec.failure_domain.as_deref().or(machine.spec.failure_domain.as_deref());
    domain.filter(|domain| !domain.is_empty())
}

fn spec(machine: &WCPMachine, owner: &Machine, cluster: &str, uuid: &str) -> VirtualMachineSpec {
    let wanted = &machine.spec;
    let volume = |volume: &MachineVolume| VirtualMachineVolume {
        name: volume.name.clone(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolume {
            claim_name: claim_name(&owner.name_any(), volume),
            ..PersistentVolumeClaimVolume::default()
        }),
        ..VirtualMachineVolume::default()
    };
    VirtualMachineSpec {
        image_name: wanted.image_name.clone(),
        class_name: wanted.class_name.clone(),
        storage_class: Some(wanted.storage_class.clone()).filter(|class| !class.is_empty()),
        power_state: Some(POWERED_ON.to_owned()),
        power_off_mode: wanted.power_off_mode.clone(),
        min_hardware_version: wanted.min_hardware_version,
        resource_policy_name: Some(names::resource_policy(cluster)),
        network_interfaces: vec![VirtualMachineNetworkInterface {
            network_type: Some(NETWORK_TYPE_NSX_T.to_owned()),
            network_name: Some(names::virtual_network(cluster)),
            ..VirtualMachineNetworkInterface::default()
        }],
        vm_metadata: Some(VirtualMachineMetadata {
            secret_name: Some(names::cloud_init_secret(&machine.name_any())),
            transport: Some(TRANSPORT_EXTRA_CONFIG.to_owned()),
            ..VirtualMachineMetadata::default()
        }),
        readiness_probe: is_control_plane(owner).then(api_server_answers),
        volumes: wanted.volumes.iter().map(volume).collect(),
        bios_uuid: Some(uuid.to_owned()),
        instance_uuid: Some(uuid.to_owned()),
        ..VirtualMachineSpec::default()
    }
}

/// The load balancer sends nobody to an API server that does not listen yet.
fn api_server_answers() -> Probe {
    let port = IntOrString::Int(names::API_SERVER_PORT);
    Probe { tcp_socket: Some(TcpSocketAction { port, host: None }), ..Probe::default() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
