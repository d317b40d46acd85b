//! The watch caches, and the indexes that map an event to the affected objects without a scan.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::cns::CnsNodeVmAttachment;
use api::names::annotation;
use api::net::netoperator::NetworkInterface;
use api::net::{VirtualNetwork, VirtualNetworkInterface};
use api::topology::{AvailabilityZone, Zone};
use api::vmop::{
    ContentLibraryProvider, ContentSource, ContentSourceBinding, VirtualMachine, VirtualMachineClass,
    VirtualMachineClassBinding, VirtualMachineImage, VirtualMachineService, VirtualMachineSetResourcePolicy,
    VirtualMachineStatus,
};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::storage::v1::StorageClass;
use kit::Runtime;
use kit::index::{Index, key};
use kit::optional::{Optional, watch_optional};
use kit::watch::{self, Cache};
use kube::api::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use vsphere::MoRef;

use crate::image::libraries;

/// The caches that every replica keeps, because admission reads them.
#[derive(Clone)]
pub struct ReplicaCaches {
    /// Storage classes, which refer to storage policies.
    pub storage_classes: Cache<StorageClass>,
    /// Resource quotas. They list the storage classes that a namespace may use.
    pub quotas: Cache<ResourceQuota>,
    pub quotas_by_namespace: Index<ResourceQuota>,
    /// Namespaced zones, if the kind is served.
    pub zones: Optional<Zone>,
    /// Cluster-wide zones with each namespace's placement in them, if the kind is served.
    pub availability_zones: Optional<AvailabilityZone>,
    /// Namespace metadata. Annotations contain the folder, pool and networks.
    pub namespaces: Cache<PartialObjectMeta<Namespace>>,
    /// Resource policies, which define folders and pools.
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
}

impl ReplicaCaches {
    /// Starts the watches.
    pub fn start(runtime: &Runtime) -> Self {
        let client = || runtime.client.clone();
        let quotas = watch::objects(runtime, Api::<ResourceQuota>::all(client()));
        Self {
            storage_classes: watch::objects(runtime, Api::all(client())),
            quotas_by_namespace: quotas.index(|quota| quota.namespace().into_iter().collect()),
            quotas,
            zones: watch_optional(runtime, Api::all(client())),
            availability_zones: watch_optional(runtime, Api::all(client())),
            namespaces: watch::metadata(runtime, Api::all(client())),
            policies: watch::objects(runtime, Api::all(client())),
        }
    }

    /// Waits until all caches are complete.
    pub async fn complete(&self) {
        let Self {
            storage_classes,
            quotas,
            quotas_by_namespace: _,
            zones,
            availability_zones,
            namespaces,
            policies,
        } = self;
        let objects =
            async { tokio::join!(storage_classes.complete(), quotas.complete(), policies.complete()) };
        let places =
            async { tokio::join!(zones.settled(), availability_zones.settled(), namespaces.complete()) };
        tokio::join!(objects, places);
    }
}

/// All caches for VM reconciles, with the indexes that map other objects to VMs.
#[derive(Clone)]
pub struct Caches {
    /// The caches of every replica.
    pub shared: ReplicaCaches,
    pub vms: Cache<VirtualMachine>,
    /// VM classes (sizes).
    pub classes: Cache<VirtualMachineClass>,
    /// Bindings that allow a namespace to use a class.
    pub bindings: Cache<VirtualMachineClassBinding>,
    pub images: Cache<VirtualMachineImage>,
    /// Image sources in addition to the configured library.
    pub sources: Optional<ContentSource>,
    /// The content libraries that sources refer to.
    pub providers: Optional<ContentLibraryProvider>,
    /// Bindings that allow a namespace to use a source.
    pub source_bindings: Optional<ContentSourceBinding>,
    /// Sources by ContentLibraryProvider name.
    pub sources_by_provider: Index<ContentSource>,
    /// Source bindings by ContentSource name.
    pub source_bindings_by_source: Index<ContentSourceBinding>,
    pub services: Cache<VirtualMachineService>,
    /// The network provider's networks.
    pub networks: Optional<VirtualNetwork>,
    /// Network interfaces that NSX realizes.
    pub nsx_interfaces: Optional<VirtualNetworkInterface>,
    /// Network interfaces that net-operator realizes.
    pub interfaces: Optional<NetworkInterface>,
    /// Volume attachments, if the kind is served.
    pub attachments: Optional<CnsNodeVmAttachment>,
    /// Attachments by VirtualMachine (`namespace/name`).
    pub attachments_by_vm: Index<CnsNodeVmAttachment>,
    /// Requested net-operator interfaces by VirtualMachine (`namespace/name`).
    pub interfaces_by_vm: Index<NetworkInterface>,
    /// Requested NSX interfaces by VirtualMachine (`namespace/name`).
    pub nsx_interfaces_by_vm: Index<VirtualNetworkInterface>,
    pub zones_by_namespace: Index<Zone>,
    /// Cluster-wide zones by each namespace that is placed in them.
    pub availability_zones_by_namespace: Index<AvailabilityZone>,
    /// Class bindings by `namespace/class`.
    pub bindings_by_class: Index<VirtualMachineClassBinding>,
    pub vms_by_image: Index<VirtualMachine>,
    /// VirtualMachines by `namespace/policy`.
    pub vms_by_policy: Index<VirtualMachine>,
    /// VirtualMachines by current or last known endpoint address.
    pub vms_by_address: Index<VirtualMachine>,
    /// Services by one selector label, see [`selector_key`].
    pub services_by_label: Index<VirtualMachineService>,
    /// VirtualMachines by label, see [`label_key`].
    pub vms_by_label: Index<VirtualMachine>,
}

impl Caches {
    /// Starts the watches that aren't in `shared`. The function is long because it is one list.
    pub fn start(runtime: &Runtime, shared: ReplicaCaches) -> Self {
        let client = || runtime.client.clone();
        let vms = watch::objects(runtime, Api::<VirtualMachine>::all(client()));
        let bindings = watch::objects(runtime, Api::<VirtualMachineClassBinding>::all(client()));
        let services = watch::objects(runtime, Api::<VirtualMachineService>::all(client()));
        let of = |pick: fn(&VirtualMachine) -> Vec<String>| vms.index(pick);
        let attachments = watch_optional::<CnsNodeVmAttachment>(runtime, Api::all(client()));
        let interfaces = watch_optional::<NetworkInterface>(runtime, Api::all(client()));
        let nsx_interfaces = watch_optional::<VirtualNetworkInterface>(runtime, Api::all(client()));
        let sources = watch_optional::<ContentSource>(runtime, Api::all(client()));
        let source_bindings = watch_optional::<ContentSourceBinding>(runtime, Api::all(client()));
        Self {
            sources_by_provider: sources
                .cache()
                .index(|source| libraries::provider_of(source).map(str::to_owned).into_iter().collect()),
            source_bindings_by_source: source_bindings
                .cache()
                .index(|binding| vec![binding.spec.content_source_ref.name.clone()]),
            sources,
            source_bindings,
            providers: watch_optional(runtime, Api::all(client())),
            attachments_by_vm: attachments.cache().index(|there| made_for(there).into_iter().collect()),
            attachments,
            interfaces_by_vm: interfaces.cache().index(|there| made_for(there).into_iter().collect()),
            interfaces,
            nsx_interfaces_by_vm: nsx_interfaces.cache().index(|there| made_for(there).into_iter().collect()),
            nsx_interfaces,
            zones_by_namespace: shared.zones.cache().index(|zone| zone.namespace().into_iter().collect()),
            availability_zones_by_namespace: shared
                .availability_zones
                .cache()
                .index(|zone| zone.spec.namespaces.keys().cloned().collect()),
            bindings_by_class: bindings.index(|binding| {
                vec![key(binding.metadata.namespace.as_deref(), &binding.spec.class_ref.name)]
            }),
            vms_by_image: of(|vm| vec![vm.spec.image_name.clone()]),
            vms_by_policy: of(|vm| named(vm, vm.spec.resource_policy_name.as_deref())),
            vms_by_label: of(label_keys),
            vms_by_address: of(held),
            services_by_label: services.index(|service| selector_key(service).into_iter().collect()),
            services,
            classes: watch::objects(runtime, Api::all(client())),
            images: watch::objects(runtime, Api::all(client())),
            networks: watch_optional(runtime, Api::all(client())),
            vms,
            bindings,
            shared,
        }
    }

    /// Returns the VM folders of all namespaces that contain VirtualMachines, from the namespaces' annotations. This scans the
    /// caches, so call it only when a connection starts.
    pub fn folders(&self) -> Vec<MoRef> {
        let vms = self.vms.all();
        let namespaces: BTreeSet<_> = vms.iter().filter_map(|vm| vm.metadata.namespace.as_deref()).collect();
        let folder = |namespace| {
            let object = self.shared.namespaces.get(None, namespace)?;
            object
                .annotations()
                .get(annotation::NAMESPACE_FOLDER)
                .map(|folder| MoRef::folder(folder.as_str()))
        };
        namespaces.into_iter().filter_map(folder).collect()
    }

    /// Returns the namespaces that may use a source.
    pub fn namespaces_bound_to(&self, source: &str) -> Vec<String> {
        self.source_bindings_by_source
            .refs(source)
            .into_iter()
            .filter_map(|binding| binding.namespace)
            .collect()
    }

    /// Returns the `spec.hard` keys in all quotas of a namespace.
    pub fn quota_keys(&self, namespace: &str) -> BTreeSet<String> {
        self.shared.quotas_by_namespace.objects(namespace).iter().flat_map(|quota| hard_keys(quota)).collect()
    }
}

/// Returns the VirtualMachine for which an object was created, as `namespace/name`.
pub fn made_for<K: Resource>(object: &K) -> Option<String> {
    let vm = object.annotations().get(annotation::VIRTUAL_MACHINE)?;
    Some(key(object.meta().namespace.as_deref(), vm))
}

/// Returns a quota's `spec.hard` keys.
pub fn hard_keys(quota: &ResourceQuota) -> Vec<String> {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    hard.map(|hard| hard.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the [`label_key`] for each label of an object.
pub fn label_keys<K: Resource>(object: &K) -> Vec<String> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    object.labels().iter().map(|(name, value)| label_key(namespace, name, value)).collect()
}

/// Returns a service's index key, which is the first label in its selector, or `None` if the selector is empty. One label is
/// enough to find the candidates.
pub fn selector_key(service: &VirtualMachineService) -> Option<String> {
    let (name, value) = service.spec.selector.iter().next()?;
    Some(label_key(&service.namespace().unwrap_or_default(), name, value))
}

/// Returns the index key for a label on an object in a namespace.
pub fn label_key(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

fn named(vm: &VirtualMachine, name: Option<&str>) -> Vec<String> {
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| key(vm.metadata.namespace.as_deref(), name)).into_iter().collect()
}

/// Returns a VirtualMachine's current endpoint addresses and the addresses that it keeps while its guest doesn't report any.
pub fn held(vm: &VirtualMachine) -> Vec<String> {
    let of = |status: &VirtualMachineStatus| {
        status.endpoint_addresses.iter().chain(&status.kept_addresses).cloned().collect()
    };
    vm.status.as_ref().map(of).unwrap_or_default()
}

/// Returns the addresses that the guest reports while the VirtualMachine has no endpoint address. Some of them can
/// belong to other VirtualMachines.
pub fn awaited(vm: &VirtualMachine) -> Vec<String> {
    let Some(status) = vm.status.as_ref().filter(|status| status.endpoint_addresses.is_empty()) else {
        return Vec::new();
    };
    let interfaces = status.network_interfaces.iter().flat_map(|nic| &nic.ip_addresses);
    let reported = status.vm_ip.iter().chain(interfaces);
    let addresses = reported.filter_map(|text| text.split('/').next()?.parse::<IpAddr>().ok());
    let distinct: BTreeSet<String> = addresses.map(|ip| ip.to_canonical().to_string()).collect();
    distinct.into_iter().collect()
}
