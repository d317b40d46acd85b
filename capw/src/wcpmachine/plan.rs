//! Plans a WCPMachine's objects, without I/O: first the identity, then the boot Secret and claims, then the VirtualMachine.

use std::collections::BTreeMap;

use api::capi::{Cluster, Machine};
use api::capw::{MachineVolume, WCPCluster, WCPMachine};
use api::names::{self, annotation, finalizer, label};
use api::vmop::{
    NETWORK_TYPE_DISTRIBUTED, NETWORK_TYPE_NSX_T, POWERED_ON, PersistentVolumeClaimVolume, Probe,
    TRANSPORT_EXTRA_CONFIG, TcpSocketAction, VSphereVolume, VirtualMachine, VirtualMachineMetadata,
    VirtualMachineNetworkInterface, VirtualMachineSpec, VirtualMachineVolume,
};
use bounds::Budget;
use cloudinit::NodeMetadata;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit::apply::build_controller_reference;
use kit::controller::controller_of;
use kit::events::describe_object;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::gather::{BootstrapSource, Facts, is_made};
use super::identity::{NodeIdentity, claim_name, identity, is_claimed, move_block, whose};
use super::repair;
use super::vm_name::{NAME_ADVICE, name_taken, vm_name};
use crate::error::{InvalidInput, Waiting};
use crate::network::NetworkProvider;
use crate::upstream::{NameAvailability, child, claim, infrastructure_provisioned, is_control_plane};

/// The `powerOffMode` that shuts the guest down, and powers the VM off if the shutdown fails.
const TRY_SOFT: &str = "trySoft";
/// The memory budget, in bytes, for encoding bootstrap data. A Secret is limited to 1 MiB.
const BOOTSTRAP_BYTES: usize = 8 << 20;
/// The key for sizes in the `capacity` of a WCPMachine volume or a claim.
const CLAIM_SIZE: &str = "storage";
/// The key for sizes in the `capacity` of a VirtualMachine volume.
const DISK_SIZE: &str = "ephemeral-storage";

/// The steps of one reconcile, in order.
pub struct Plan {
    /// The providerID to persist, together with the finalizer, before any object is created.
    pub identity: Option<String>,
    /// The annotations to write together with the identity.
    pub move_block: BTreeMap<&'static str, &'static str>,
    pub then: Then,
}

/// The step after the identity is persisted.
pub enum Then {
    /// Wait for this condition.
    Wait(Waiting),
    /// The VM existed and is gone. It isn't created again.
    Lost,
    /// Apply these objects.
    Apply(Box<MachineObjects>),
}

/// The objects of a machine. The Secret contains credentials and must never be printed.
pub struct MachineObjects {
    /// The Secret that the node boots from, unless it exists already.
    pub cloud_init: Option<Secret>,
    /// The missing claims for additional disks, until the VM is created.
    pub claims: Vec<PersistentVolumeClaim>,
    pub vm: VirtualMachine,
}

/// Plans a WCPMachine from the facts.
pub fn plan(wcp_machine: &WCPMachine, facts: &Facts) -> Result<Plan, InvalidInput> {
    let wait = |waiting| Ok(Plan { identity: None, move_block: BTreeMap::new(), then: Then::Wait(waiting) });
    let Some(machine) = facts.machine.as_deref() else { return wait(Waiting::OwnerMachine) };
    let Some(cluster) = facts.cluster.as_deref() else {
        return wait(Waiting::Cluster(machine.spec.cluster_name.clone()));
    };
    let identity = identity(wcp_machine)?.unwrap_or_else(|| NodeIdentity::of(facts.drawn));
    let persisted = wcp_machine.spec.provider_id.is_some()
        && wcp_machine.finalizers().iter().any(|there| there == finalizer::WCP_MACHINE);
    let then = then(wcp_machine, machine, cluster, facts, &identity)?;
    let move_block = move_block(wcp_machine);
    Ok(Plan { identity: (!persisted).then_some(identity.provider_id), move_block, then })
}

fn then(
    wcp_machine: &WCPMachine,
    machine: &Machine,
    cluster: &Cluster,
    facts: &Facts,
    identity: &NodeIdentity,
) -> Result<Then, InvalidInput> {
    let vm = facts.vm.as_deref();
    let name = vm_name(wcp_machine, &machine.name_any())?;
    match (whose(wcp_machine, vm), vm) {
        (NameAvailability::Taken, Some(vm)) => return Err(name_taken(wcp_machine, &machine.name_any(), vm)),
        (NameAvailability::Former, Some(vm)) => {
            return Ok(Then::Wait(Waiting::Former { object: describe_object(vm), owner: "WCPMachine" }));
        }
        (_, Some(vm)) if vm.meta().deletion_timestamp.is_some() => {
            let gone = Waiting::VirtualMachineGone(describe_object(vm));
            return Ok(if existed(wcp_machine, machine) { Then::Lost } else { Then::Wait(gone) });
        }
        (_, None) if existed(wcp_machine, machine) => return Ok(Then::Lost),
        (_, None) if machine.meta().deletion_timestamp.is_some() => {
            return Ok(Then::Wait(Waiting::MachineDeleted(machine.name_any())));
        }
        _ => {}
    }
    if !infrastructure_provisioned(cluster) {
        return Ok(Then::Wait(Waiting::ClusterInfrastructure(cluster.name_any())));
    }
    if vm.is_none() {
        check_zone(wcp_machine, machine, &facts.zones)?;
    }
    let made = vm.is_some_and(is_made);
    if !made && let Some(former) = former_child(wcp_machine, facts)? {
        return Ok(Then::Wait(former));
    }
    let cloud_init = match &facts.bootstrap {
        _ if made => None,
        BootstrapSource::Kept => None,
        BootstrapSource::NotRead => return Ok(Then::Wait(Waiting::BootstrapData(machine.name_any()))),
        BootstrapSource::Missing(name) => return Ok(Then::Wait(Waiting::BootstrapSecret(name.clone()))),
        BootstrapSource::Read(secret) => {
            Some(cloud_init(wcp_machine, machine, facts, &name, identity, secret)?)
        }
    };
    let volumes: &[MachineVolume] = if made { &[] } else { &wcp_machine.spec.volumes };
    check_places(volumes)?;
    let is_there =
        |claim: &PersistentVolumeClaim| facts.claims.iter().any(|there| there.name_any() == claim.name_any());
    let claims = volumes
        .iter()
        .filter(|volume| is_claimed(volume))
        .map(|volume| volume_claim(wcp_machine, machine, volume))
        .filter(|claim| !is_there(claim))
        .collect();
    let network = network_provider(facts);
    let mut intent = virtual_machine(wcp_machine, machine, cluster, &name, &identity.uuid, network);
    if is_control_plane(machine) {
        intent.annotations_mut().extend(endpoint_annotations(cluster, facts.virtual_router, network));
    }
    let vm = repair::acceptable(vm, intent);
    Ok(Then::Apply(Box::new(MachineObjects { cloud_init, claims, vm })))
}

/// Checks that the Machine's failure domain, if set, is one of the namespace's `zones`. Without zones in vSphere, the VM
/// operator would ignore the zone label and place the VM on any host.
fn check_zone(wcp_machine: &WCPMachine, machine: &Machine, zones: &[String]) -> Result<(), InvalidInput> {
    match failure_domain(wcp_machine, machine) {
        Some(domain) if !zones.iter().any(|zone| zone == domain) => Err(InvalidInput::FailureDomain {
            machine: machine.name_any(),
            domain: domain.to_owned(),
            namespace: machine.namespace().unwrap_or_default(),
            zones: zones.to_vec(),
        }),
        _ => Ok(()),
    }
}

/// Checks that each disk with a unit number has a positive size, and a number that neither another disk nor the SCSI controller
/// uses.
fn check_places(volumes: &[MachineVolume]) -> Result<(), InvalidInput> {
    const OF_CONTROLLER: i32 = 7;
    for (at, volume) in volumes.iter().enumerate() {
        let Some(unit) = volume.unit_number else { continue };
        let wrong = |what: String| InvalidInput::Volume { volume: volume.name.clone(), what };
        if unit == OF_CONTROLLER || volumes[..at].iter().any(|other| other.unit_number == Some(unit)) {
            return Err(wrong(format!(
                "unitNumber {unit} is already in use. Give each volume a different number other than {OF_CONTROLLER}"
            )));
        }
        match volume.capacity.get(CLAIM_SIZE).map(api::Quantity::mib) {
            Some(Ok(mib)) if mib > 0 => {}
            Some(Err(error)) => {
                return Err(wrong(format!("{error}. Set capacity.storage to a size such as 16Gi")));
            }
            _ => return Err(wrong("capacity.storage is required, for example 16Gi".to_owned())),
        }
    }
    Ok(())
}

/// Returns the reason to wait if a child of a deleted WCPMachine still has a name that this one needs. Fails if another owner's
/// object has such a name.
fn former_child(wcp_machine: &WCPMachine, facts: &Facts) -> Result<Option<Waiting>, InvalidInput> {
    fn check<C>(wcp_machine: &WCPMachine, child: &C) -> Result<Option<Waiting>, InvalidInput>
    where
        C: Resource<DynamicType = ()>,
    {
        let object = describe_object(child);
        match claim(wcp_machine, Some(child), |_| false) {
            NameAvailability::Free => Ok(None),
            NameAvailability::Former => Ok(Some(Waiting::Former { object, owner: "WCPMachine" })),
            NameAvailability::Taken => Err(InvalidInput::NameTaken { object, advice: NAME_ADVICE }),
        }
    }
    let mut former = None;
    if let Some(secret) = &facts.cloud_init {
        former = former.or(check(wcp_machine, secret)?);
    }
    for volume_claim in &facts.claims {
        former = former.or(check(wcp_machine, volume_claim)?);
    }
    Ok(former)
}

/// Returns true if the VM existed before. The WCPMachine's status doesn't survive a move, but the Machine's providerID does.
pub fn existed(wcp_machine: &WCPMachine, machine: &Machine) -> bool {
    let status = wcp_machine.status.as_ref();
    let provisioned = status.and_then(|status| status.initialization.as_ref()?.provisioned).unwrap_or(false);
    provisioned || status.is_some_and(|status| status.vm_id.is_some()) || machine.spec.provider_id.is_some()
}

/// Builds the Secret that the VM boots from.
fn cloud_init(
    wcp_machine: &WCPMachine,
    machine: &Machine,
    facts: &Facts,
    name: &str,
    identity: &NodeIdentity,
    bootstrap: &Secret,
) -> Result<Secret, InvalidInput> {
    let invalid = |what: String| InvalidInput::Bootstrap { secret: bootstrap.name_any(), what };
    let value = |key: &str| bootstrap.data.as_ref()?.get(key).map(|value| value.0.as_slice());
    if value("format").is_some_and(|format| !format.is_empty() && format != b"cloud-config") {
        let what = "key format is not cloud-config, the only supported format. Set the bootstrap format to cloud-config";
        return Err(invalid(what.to_owned()));
    }
    let userdata = value("value").filter(|value| !value.is_empty());
    let userdata = userdata.ok_or_else(|| invalid("key value is missing or empty".into()))?;
    let mut metadata = NodeMetadata::of_node(name, &identity.provider_id);
    let cluster = facts.cluster.as_deref();
    if let Some(endpoint) = cluster.and_then(|cluster| cluster.spec.control_plane_endpoint.as_ref())
        && let Some(host) = endpoint.host.as_deref().filter(|host| !host.is_empty())
    {
        let port = endpoint.port.unwrap_or(names::API_SERVER_PORT);
        metadata = if is_control_plane(machine) {
            let metadata = metadata.with_control_plane_endpoint(host, port);
            match facts.virtual_router {
                Some(id) => metadata.with_virtual_router(id),
                None if network_provider(facts) == NetworkProvider::Nsx => metadata,
                None => metadata.with_virtual_router_of(host),
            }
        } else {
            metadata.with_control_plane_host(host)
        };
    }
    let reporter = Some(cloudinit::BOOTSTRAP_REPORTER.as_bytes());
    let keys = cloudinit::encode(&metadata, userdata, reporter, &Budget::new(BOOTSTRAP_BYTES))
        .map_err(|error| invalid(error.to_string()))?;
    let data = keys
        .into_iter()
        .chain(guest_report_keys())
        .map(|(key, value)| (key, ByteString(value.into_bytes())))
        .collect();
    let name = names::cloud_init_secret(&wcp_machine.name_any());
    // Cluster API's managers cache all Secrets that have the cluster label, so this Secret doesn't get the label.
    let metadata = ObjectMeta { labels: None, ..child(wcp_machine, name, &machine.spec.cluster_name) };
    Ok(Secret { metadata, data: Some(data), ..Secret::default() })
}

/// Returns initial values for the guest's report keys. If the image was captured from a node, they replace that node's report.
fn guest_report_keys() -> impl Iterator<Item = (String, String)> {
    let before = [
        (cloudinit::BOOTSTRAP_REPORTED, "true"),
        (cloudinit::BOOTSTRAP_CONDITION, ""),
        (cloudinit::BOOTSTRAP_LOG, ""),
    ];
    before.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()))
}

fn volume_claim(
    wcp_machine: &WCPMachine,
    machine: &Machine,
    volume: &MachineVolume,
) -> PersistentVolumeClaim {
    let storage_class = volume.storage_class.as_ref().unwrap_or(&wcp_machine.spec.storage_class);
    let requests =
        volume.capacity.iter().map(|(name, size)| (name.clone(), Quantity(size.0.clone()))).collect();
    PersistentVolumeClaim {
        metadata: child(wcp_machine, claim_name(&machine.name_any(), volume), &machine.spec.cluster_name),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some(requests), limits: None }),
            storage_class_name: Some(storage_class.clone()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

/// Builds the complete desired VirtualMachine. The [`endpoint_annotations`] are added separately.
fn virtual_machine(
    wcp_machine: &WCPMachine,
    machine: &Machine,
    cluster: &Cluster,
    name: &str,
    uuid: &str,
    network: NetworkProvider,
) -> VirtualMachine {
    let cluster_name = cluster.name_any();
    let control_plane = is_control_plane(machine);
    let mut vm = VirtualMachine::new(name, spec(wcp_machine, machine, &cluster_name, uuid, network));
    vm.spec.power_off_mode = power_off_mode(wcp_machine, machine, cluster);
    let (group, tag) = if control_plane {
        (names::CONTROL_PLANE_GROUP.to_owned(), names::TAG_CONTROL_PLANE)
    } else {
        (names::worker_group(&cluster_name), names::TAG_WORKER)
    };
    vm.metadata.namespace = wcp_machine.namespace();
    vm.metadata.owner_references = Some(vec![build_controller_reference(wcp_machine)]);
    vm.metadata.labels = Some(labels(wcp_machine, machine, &cluster_name));
    vm.metadata.annotations = Some(BTreeMap::from([
        (annotation::CLUSTER_MODULE_GROUP.to_owned(), group),
        (annotation::VSPHERE_TAG.to_owned(), tag.to_owned()),
    ]));
    vm
}

/// Returns the annotations of a control plane VM for its endpoint and virtual router number. The VM operator copies the
/// annotations to vCenter, where other management clusters find them. With NSX, a load balancer has the address, so the number is
/// left out.
fn endpoint_annotations(
    cluster: &Cluster,
    virtual_router: Option<u8>,
    network: NetworkProvider,
) -> impl Iterator<Item = (String, String)> {
    let host = cluster.spec.control_plane_endpoint.as_ref().and_then(|endpoint| endpoint.host.clone());
    let host = host.filter(|host| !host.is_empty());
    let router = virtual_router.filter(|_| host.is_some() && network != NetworkProvider::Nsx);
    let host = host.map(|host| (annotation::CONTROL_PLANE_ENDPOINT.to_owned(), host));
    let router = router.map(|id| (annotation::VIRTUAL_ROUTER.to_owned(), id.to_string()));
    host.into_iter().chain(router)
}

/// Returns the power-off mode from the spec. By default, a control plane node is shut down, so that the other nodes take over its
/// roles at once. A shutdown isn't needed if the whole cluster is being deleted.
fn power_off_mode(wcp_machine: &WCPMachine, machine: &Machine, cluster: &Cluster) -> Option<String> {
    let leaves_others = is_control_plane(machine) && cluster.metadata.deletion_timestamp.is_none();
    wcp_machine.spec.power_off_mode.clone().or_else(|| leaves_others.then(|| TRY_SOFT.to_owned()))
}

fn labels(wcp_machine: &WCPMachine, machine: &Machine, cluster: &str) -> BTreeMap<String, String> {
    let role = if is_control_plane(machine) { names::ROLE_CONTROL_PLANE } else { names::ROLE_NODE };
    let mut labels: BTreeMap<String, String> = [
        (label::CAPW_CLUSTER_NAME, cluster),
        (label::CAPW_CLUSTER_ROLE, role),
        (label::CAPV_CLUSTER_NAME, cluster),
        (label::CAPV_CLUSTER_ROLE, role),
        (label::CLUSTER_NAME, cluster),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if let Some(deployment) = machine.labels().get(label::DEPLOYMENT_NAME) {
        labels.insert(label::DEPLOYMENT_NAME.to_owned(), deployment.clone());
    }
    if let Some(zone) = failure_domain(wcp_machine, machine) {
        labels.insert(label::ZONE.to_owned(), zone.to_owned());
    }
    labels
}

/// Returns the Machine's failure domain, or the WCPMachine's if the Machine doesn't set one.
pub fn failure_domain<'a>(wcp_machine: &'a WCPMachine, machine: &'a Machine) -> Option<&'a str> {
    let domain = machine.spec.failure_domain.as_deref().or(wcp_machine.spec.failure_domain.as_deref());
    domain.filter(|domain| !domain.is_empty())
}

fn spec(
    wcp_machine: &WCPMachine,
    machine: &Machine,
    cluster: &str,
    uuid: &str,
    network: NetworkProvider,
) -> VirtualMachineSpec {
    let wanted = &wcp_machine.spec;
    VirtualMachineSpec {
        image_name: wanted.image_name.clone(),
        class_name: wanted.class_name.clone(),
        storage_class: Some(wanted.storage_class.clone()).filter(|class| !class.is_empty()),
        power_state: Some(POWERED_ON.to_owned()),
        min_hardware_version: wanted.min_hardware_version,
        resource_policy_name: Some(names::resource_policy(cluster)),
        network_interfaces: vec![interface(cluster, network)],
        vm_metadata: Some(VirtualMachineMetadata {
            secret_name: Some(names::cloud_init_secret(&wcp_machine.name_any())),
            transport: Some(TRANSPORT_EXTRA_CONFIG.to_owned()),
            ..VirtualMachineMetadata::default()
        }),
        readiness_probe: is_control_plane(machine).then(api_server_answers),
        volumes: wanted.volumes.iter().map(|volume| vm_volume(machine, volume)).collect(),
        bios_uuid: Some(uuid.to_owned()),
        instance_uuid: Some(uuid.to_owned()),
        ..VirtualMachineSpec::default()
    }
}

/// Returns the machine's network provider. A cluster that has a VirtualNetwork uses NSX, and an existing VM keeps its provider:
/// changed flags only apply to new clusters.
fn network_provider(facts: &Facts) -> NetworkProvider {
    if facts.network.as_deref().is_some_and(|network| controller_of::<WCPCluster, _>(network).is_some()) {
        return NetworkProvider::Nsx;
    }
    let interface = facts.vm.as_deref().and_then(|vm| vm.spec.network_interfaces.first());
    match interface.map(|interface| interface.network_type.as_deref()) {
        None => facts.network_provider,
        Some(Some(NETWORK_TYPE_NSX_T)) => NetworkProvider::Nsx,
        Some(Some(NETWORK_TYPE_DISTRIBUTED)) => NetworkProvider::Distributed,
        Some(_) => NetworkProvider::Named,
    }
}

/// Returns the machine's only network interface. For an interface without a network name, the VM operator selects the default
/// network.
fn interface(cluster: &str, network: NetworkProvider) -> VirtualMachineNetworkInterface {
    let (type_, name) = match network {
        NetworkProvider::Named => (None, None),
        NetworkProvider::Distributed => (Some(NETWORK_TYPE_DISTRIBUTED), None),
        NetworkProvider::Nsx => (Some(NETWORK_TYPE_NSX_T), Some(names::virtual_network(cluster))),
    };
    VirtualMachineNetworkInterface {
        network_type: type_.map(str::to_owned),
        network_name: name,
        ..VirtualMachineNetworkInterface::default()
    }
}

/// Returns the volume as one of the VM's own disks if it has a unit number, or otherwise as a claim.
fn vm_volume(machine: &Machine, volume: &MachineVolume) -> VirtualMachineVolume {
    let MachineVolume { name, mount_path: _, capacity, storage_class, unit_number } = volume;
    let Some(unit) = unit_number else {
        return VirtualMachineVolume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolume {
                claim_name: claim_name(&machine.name_any(), volume),
                ..PersistentVolumeClaimVolume::default()
            }),
            ..VirtualMachineVolume::default()
        };
    };
    // vSphere disk sizes are whole MiB.
    let size = capacity.get(CLAIM_SIZE).and_then(|size| size.mib().ok());
    let size = size.map(|mib| (DISK_SIZE.to_owned(), api::Quantity(format!("{mib}Mi"))));
    VirtualMachineVolume {
        name: name.clone(),
        v_sphere_volume: Some(VSphereVolume {
            capacity: size.into_iter().collect(),
            storage_class: storage_class.clone(),
            ..VSphereVolume::default()
        }),
        unit_number: Some(*unit),
        ..VirtualMachineVolume::default()
    }
}

/// Returns the readiness probe. It keeps the load balancer from sending traffic to an API server that isn't listening yet.
fn api_server_answers() -> Probe {
    let port = IntOrString::Int(names::API_SERVER_PORT);
    Probe { tcp_socket: Some(TcpSocketAction { port, host: None }), ..Probe::default() }
}

#[cfg(test)]
mod tests;
