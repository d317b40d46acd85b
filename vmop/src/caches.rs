//! What is watched, and how an event finds the objects it concerns without a scan.

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
use kit::optional::{Optional, optional};
use kit::watch::{self, Cache};
use kube::api::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};
use vsphere::MoRef;

use crate::image::libraries;

/// What every replica watches, because admission reads it.
#[derive(Clone)]
pub struct ReplicaCaches {
    /// Storage classes, with the storage policies that they stand for.
    pub storage_classes: Cache<StorageClass>,
    /// Which storage classes a namespace was given.
    pub quotas: Cache<ResourceQuota>,
    /// Quotas by namespace.
    pub quotas_by_namespace: Index<ResourceQuota>,
    /// The zones of namespaces, where there are any.
    pub zones: Optional<Zone>,
    /// The zones of all, with what each namespace has there, where there are any.
    pub availability_zones: Optional<AvailabilityZone>,
    /// Folder, pool and networks of each namespace, in its annotations.
    pub namespaces: Cache<PartialObjectMeta<Namespace>>,
    /// Folders and pools.
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
}

impl ReplicaCaches {
    /// Begins to watch.
    pub fn start(runtime: &Runtime) -> Self {
        let client = || runtime.client.clone();
        let quotas = watch::objects(runtime, Api::<ResourceQuota>::all(client()));
        Self {
            storage_classes: watch::objects(runtime, Api::all(client())),
            quotas_by_namespace: quotas.index(|quota| quota.namespace().into_iter().collect()),
            quotas,
            zones: optional(runtime, Api::all(client())),
            availability_zones: optional(runtime, Api::all(client())),
            namespaces: watch::metadata(runtime, Api::all(client())),
            policies: watch::objects(runtime, Api::all(client())),
        }
    }

    /// Resolves when all of them are complete.
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

/// Everything that is watched for VMs, with the indexes that lead back to them.
#[derive(Clone)]
pub struct Caches {
    /// What every replica watches.
    pub shared: ReplicaCaches,
    /// VirtualMachines.
    pub vms: Cache<VirtualMachine>,
    /// Sizes.
    pub classes: Cache<VirtualMachineClass>,
    /// Who may use which size.
    pub bindings: Cache<VirtualMachineClassBinding>,
    /// Images.
    pub images: Cache<VirtualMachineImage>,
    /// Sources of images, beside the configured library.
    pub sources: Optional<ContentSource>,
    /// The libraries that sources stand for.
    pub providers: Optional<ContentLibraryProvider>,
    /// Who may use which source.
    pub source_bindings: Optional<ContentSourceBinding>,
    /// Sources by the library that they stand for.
    pub sources_by_provider: Index<ContentSource>,
    /// Bindings by source.
    pub source_bindings_by_source: Index<ContentSourceBinding>,
    /// Addresses in front of VMs.
    pub services: Cache<VirtualMachineService>,
    /// Networks of the network provider.
    pub networks: Optional<VirtualNetwork>,
    /// Network adapters as NSX realises them.
    pub nsx_interfaces: Optional<VirtualNetworkInterface>,
    /// Network adapters as net-operator realises them.
    pub interfaces: Optional<NetworkInterface>,
    /// Volumes that are attached to VMs, where anybody attaches them.
    pub attachments: Optional<CnsNodeVmAttachment>,
    /// Attachments by `namespace/name` of the VirtualMachine.
    pub attachments_by_vm: Index<CnsNodeVmAttachment>,
    /// Network adapters of net-operator's that were requested, by `namespace/name` of the VirtualMachine.
    pub interfaces_by_vm: Index<NetworkInterface>,
    /// Network adapters of NSX's that were requested, by `namespace/name` of the VirtualMachine.
    pub nsx_interfaces_by_vm: Index<VirtualNetworkInterface>,
    /// Zones by namespace.
    pub zones_by_namespace: Index<Zone>,
    /// Zones with what each namespace has there, by namespace.
    pub availability_zones_by_namespace: Index<AvailabilityZone>,
    /// Bindings by `namespace/class`.
    pub bindings_by_class: Index<VirtualMachineClassBinding>,
    /// VirtualMachines by image.
    pub vms_by_image: Index<VirtualMachine>,
    /// VirtualMachines by `namespace/policy`.
    pub vms_by_policy: Index<VirtualMachine>,
    /// VirtualMachines by the addresses that they have, or had last.
    pub vms_by_address: Index<VirtualMachine>,
    /// Services by a label that they select, as [`selector_key`] names it.
    pub services_by_label: Index<VirtualMachineService>,
    /// VirtualMachines by each of their labels, as [`label_key`] writes it.
    pub vms_by_label: Index<VirtualMachine>,
}

impl Caches {
    /// Begins to watch what `shared` does not hold. One list of watches and their indexes, longer than a procedure may be.
    pub fn start(runtime: &Runtime, shared: ReplicaCaches) -> Self {
        let client = || runtime.client.clone();
        let vms = watch::objects(runtime, Api::<VirtualMachine>::all(client()));
        let bindings = watch::objects(runtime, Api::<VirtualMachineClassBinding>::all(client()));
        let services = watch::objects(runtime, Api::<VirtualMachineService>::all(client()));
        let of = |pick: fn(&VirtualMachine) -> Vec<String>| vms.index(pick);
        let attachments = optional::<CnsNodeVmAttachment>(runtime, Api::all(client()));
        let interfaces = optional::<NetworkInterface>(runtime, Api::all(client()));
        let nsx_interfaces = optional::<VirtualNetworkInterface>(runtime, Api::all(client()));
        let sources = optional::<ContentSource>(runtime, Api::all(client()));
        let source_bindings = optional::<ContentSourceBinding>(runtime, Api::all(client()));
        Self {
            sources_by_provider: sources
                .cache()
                .index(|source| libraries::provider_of(source).map(str::to_owned).into_iter().collect()),
            source_bindings_by_source: source_bindings
                .cache()
                .index(|binding| vec![binding.spec.content_source_ref.name.clone()]),
            sources,
            source_bindings,
            providers: optional(runtime, Api::all(client())),
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
            networks: optional(runtime, Api::all(client())),
            vms,
            bindings,
            shared,
        }
    }

    /// The folders of all namespaces that have VirtualMachines. A scan: for the start of a connection.
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

    /// The namespaces that may use a source.
    pub fn namespaces_bound_to(&self, source: &str) -> Vec<String> {
        self.source_bindings_by_source
            .refs(source)
            .into_iter()
            .filter_map(|binding| binding.namespace)
            .collect()
    }

    /// The hard keys of all quotas of a namespace.
    pub fn quota_keys(&self, namespace: &str) -> BTreeSet<String> {
        self.shared.quotas_by_namespace.objects(namespace).iter().flat_map(|quota| hard_keys(quota)).collect()
    }
}

/// The VirtualMachine that an object was made for, as `namespace/name`.
pub fn made_for<K: Resource>(object: &K) -> Option<String> {
    let vm = object.annotations().get(annotation::VIRTUAL_MACHINE)?;
    Some(key(object.meta().namespace.as_deref(), vm))
}

/// The keys of what a quota limits.
pub fn hard_keys(quota: &ResourceQuota) -> Vec<String> {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    hard.map(|hard| hard.keys().cloned().collect()).unwrap_or_default()
}

/// The keys of all labels of an object, as [`label_key`] writes them.
pub fn label_keys<K: Resource>(object: &K) -> Vec<String> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    object.labels().iter().map(|(name, value)| label_key(namespace, name, value)).collect()
}

/// The label by which a service is found from a VirtualMachine: one of its selector, any will do.
pub fn selector_key(service: &VirtualMachineService) -> Option<String> {
    let (name, value) = service.spec.selector.iter().next()?;
    Some(label_key(&service.namespace().unwrap_or_default(), name, value))
}

/// A label of an object in a namespace, as a key of an index.
pub fn label_key(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

fn named(vm: &VirtualMachine, name: Option<&str>) -> Vec<String> {
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| key(vm.metadata.namespace.as_deref(), name)).into_iter().collect()
}

/// The addresses that a VirtualMachine has, or had last.
pub fn held(vm: &VirtualMachine) -> Vec<String> {
    let of = |status: &VirtualMachineStatus| {
        status.endpoint_addresses.iter().chain(&status.kept_addresses).cloned().collect()
    };
    vm.status.as_ref().map(of).unwrap_or_default()
}

/// The addresses that the guest of a VirtualMachine without an endpoint address reports. Some of them can belong to other
/// VirtualMachines.
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
