//! What is watched, and how an event finds the objects it concerns without a scan.

use std::collections::BTreeSet;

use api::cns::CnsNodeVmAttachment;
use api::names::annotation;
use api::net::netoperator::NetworkInterface;
use api::net::{VirtualNetwork, VirtualNetworkInterface};
use api::topology::{AvailabilityZone, Zone};
use api::vmop::{
    ContentLibraryProvider, ContentSource, ContentSourceBinding, VirtualMachine, VirtualMachineClass,
    VirtualMachineClassBinding, VirtualMachineImage, VirtualMachineSetResourcePolicy,
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

use crate::admission::Known;
use crate::image::libraries;

/// Everything that is watched for machines, with the indexes that lead back to them.
#[derive(Clone)]
pub struct Caches {
    /// The machines.
    pub machines: Cache<VirtualMachine>,
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
    pub sources_of: Index<ContentSource>,
    /// Bindings by source.
    pub bound_to: Index<ContentSourceBinding>,
    /// Folders and pools.
    pub policies: Cache<VirtualMachineSetResourcePolicy>,
    /// Networks of the network provider.
    pub networks: Optional<VirtualNetwork>,
    /// Cards as NSX realises them.
    pub nsx_interfaces: Optional<VirtualNetworkInterface>,
    /// Cards as net-operator realises them.
    pub interfaces: Optional<NetworkInterface>,
    /// Folder and pool of each namespace, in its annotations.
    pub namespaces: Cache<PartialObjectMeta<Namespace>>,
    /// Storage classes, with the storage policies that they stand for.
    pub storage_classes: Cache<StorageClass>,
    /// Which storage classes a namespace was given.
    pub quotas: Cache<ResourceQuota>,
    /// Zones that namespaces may use, where there are any.
    pub zones: Optional<Zone>,
    /// Zones with what each namespace has there, where there are any.
    pub wide_zones: Optional<AvailabilityZone>,
    /// Volumes that are attached to machines, where anybody attaches them.
    pub attachments: Optional<CnsNodeVmAttachment>,
    /// Attachments by `namespace/machine`.
    pub attachments_of: Index<CnsNodeVmAttachment>,
    /// Cards of net-operator's that were asked for, by `namespace/machine`.
    pub interfaces_of: Index<NetworkInterface>,
    /// Cards of NSX's that were asked for, by `namespace/machine`.
    pub nsx_interfaces_of: Index<VirtualNetworkInterface>,
    /// Zones by namespace.
    pub zones_of: Index<Zone>,
    /// Zones with what each namespace has there, by namespace.
    pub wide_zones_of: Index<AvailabilityZone>,
    /// Bindings by `namespace/class`.
    pub bindings_of: Index<VirtualMachineClassBinding>,
    /// Quotas by namespace.
    pub quotas_of: Index<ResourceQuota>,
    /// Policies by namespace.
    pub policies_of: Index<VirtualMachineSetResourcePolicy>,
    /// Machines by class.
    pub by_class: Index<VirtualMachine>,
    /// Machines by image.
    pub by_image: Index<VirtualMachine>,
    /// Machines by `namespace/policy`.
    pub by_policy: Index<VirtualMachine>,
    /// Machines by `namespace/network`.
    pub by_network: Index<VirtualMachine>,
    /// Machines by `namespace/name` of the interface objects that they name.
    pub by_interface: Index<VirtualMachine>,
    /// Machines by namespace.
    pub by_namespace: Index<VirtualMachine>,
    /// Machines by storage class.
    pub by_storage: Index<VirtualMachine>,
    /// Machines by each of their labels, as [`label_key`] writes it.
    pub by_label: Index<VirtualMachine>,
}

impl Caches {
    /// Begins to watch what is not `known` already.
    pub fn start(started: &Runtime, known: &Known) -> Self {
        let client = || started.client.clone();
        let machines = watch::objects(started, Api::<VirtualMachine>::all(client()));
        let bindings = watch::objects(started, Api::<VirtualMachineClassBinding>::all(client()));
        let policies = watch::objects(started, Api::<VirtualMachineSetResourcePolicy>::all(client()));
        let (zones, wide_zones) = (known.zones.clone(), known.wide_zones.clone());
        let of = |pick: fn(&VirtualMachine) -> Vec<String>| machines.index(pick);
        let attachments = optional::<CnsNodeVmAttachment>(started, Api::all(client()));
        let interfaces = optional::<NetworkInterface>(started, Api::all(client()));
        let nsx_interfaces = optional::<VirtualNetworkInterface>(started, Api::all(client()));
        let sources = optional::<ContentSource>(started, Api::all(client()));
        let source_bindings = optional::<ContentSourceBinding>(started, Api::all(client()));
        Self {
            sources_of: sources
                .cache()
                .index(|source| libraries::provider_of(source).map(str::to_owned).into_iter().collect()),
            bound_to: source_bindings
                .cache()
                .index(|binding| vec![binding.spec.content_source_ref.name.clone()]),
            sources,
            source_bindings,
            providers: optional(started, Api::all(client())),
            attachments_of: attachments.cache().index(|there| made_for(there).into_iter().collect()),
            attachments,
            interfaces_of: interfaces.cache().index(|there| made_for(there).into_iter().collect()),
            interfaces,
            nsx_interfaces_of: nsx_interfaces.cache().index(|there| made_for(there).into_iter().collect()),
            nsx_interfaces,
            zones_of: zones.cache().index(|zone| zone.namespace().into_iter().collect()),
            wide_zones_of: wide_zones.cache().index(|zone| zone.spec.namespaces.keys().cloned().collect()),
            zones,
            wide_zones,
            bindings_of: bindings.index(|binding| {
                vec![key(binding.metadata.namespace.as_deref(), &binding.spec.class_ref.name)]
            }),
            quotas_of: known.quotas_of.clone(),
            policies_of: policies.index(|policy| policy.namespace().into_iter().collect()),
            by_class: of(|vm| vec![vm.spec.class_name.clone()]),
            by_image: of(|vm| vec![vm.spec.image_name.clone()]),
            by_policy: of(|vm| named(vm, vm.spec.resource_policy_name.as_deref())),
            by_network: of(|vm| {
                let networks = vm.spec.network_interfaces.iter().map(|nic| nic.network_name.as_deref());
                networks.flat_map(|name| named(vm, name)).collect()
            }),
            by_interface: of(|vm| {
                let given = vm.spec.network_interfaces.iter().filter_map(|nic| nic.provider_ref.as_ref());
                given.flat_map(|given| named(vm, Some(&given.name))).collect()
            }),
            by_namespace: of(|vm| vm.namespace().into_iter().collect()),
            by_storage: of(|vm| vm.spec.storage_class.iter().cloned().collect()),
            by_label: of(|vm| {
                let namespace = vm.namespace().unwrap_or_default();
                vm.labels().iter().map(|(name, value)| label_key(&namespace, name, value)).collect()
            }),
            classes: watch::objects(started, Api::all(client())),
            images: watch::objects(started, Api::all(client())),
            networks: optional(started, Api::all(client())),
            namespaces: watch::metadata(started, Api::all(client())),
            storage_classes: known.storage_classes.clone(),
            policies,
            machines,
            bindings,
            quotas: known.quotas.clone(),
        }
    }

    /// The folders of all namespaces that have machines. A scan: for the start of a connection.
    pub fn folders(&self) -> Vec<MoRef> {
        let machines = self.machines.all();
        let namespaces: BTreeSet<_> =
            machines.iter().filter_map(|vm| vm.metadata.namespace.as_deref()).collect();
        let folder = |namespace| {
            let object = self.namespaces.get(None, namespace)?;
            object
                .annotations()
                .get(annotation::NAMESPACE_FOLDER)
                .map(|folder| MoRef::folder(folder.as_str()))
        };
        namespaces.into_iter().filter_map(folder).collect()
    }

    /// The namespaces that may use a source.
    pub fn namespaces_of(&self, source: &str) -> Vec<String> {
        self.bound_to.refs(source).into_iter().filter_map(|binding| binding.namespace).collect()
    }

    /// The hard keys of all quotas of a namespace.
    pub fn quota_keys(&self, namespace: &str) -> BTreeSet<String> {
        self.quotas_of.objects(namespace).iter().flat_map(|quota| hard_keys(quota)).collect()
    }
}

/// The machine that an object was made for, as `namespace/machine`.
pub fn made_for<K: Resource>(object: &K) -> Option<String> {
    let machine = object.annotations().get(annotation::VIRTUAL_MACHINE)?;
    Some(key(object.meta().namespace.as_deref(), machine))
}

/// The keys of what a quota limits.
pub fn hard_keys(quota: &ResourceQuota) -> Vec<String> {
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    hard.map(|hard| hard.keys().cloned().collect()).unwrap_or_default()
}

/// A label of an object in a namespace, as a key of an index.
pub fn label_key(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

fn named(vm: &VirtualMachine, name: Option<&str>) -> Vec<String> {
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| key(vm.metadata.namespace.as_deref(), name)).into_iter().collect()
}
