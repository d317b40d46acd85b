//! Reads the guest's data from its Secret or ConfigMap, and composes the bootstrap data.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::vmop as reason;
use api::vmop::VirtualMachine;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::apply::Api;
use kube::ResourceExt;
use vsphere::{Devices, VAppProperty, VirtualNic, Vm};

use super::compose::{compose_within_limits, names_nics};
use super::data::{Bootstrap, BootstrapInput, HASH};
use super::user_data::{UserData, UserDataSource, find_data_source, user_data};
use crate::caches::Caches;
use crate::data_sources::DataSourceKind;
use crate::templates::GoldenTemplate;
use crate::unmet::{Need, Unmet};
use crate::vcenter::{GuestNetwork, VCenter};
use crate::virtualmachine::error::Error;
use crate::virtualmachine::identity::uuids::Identity;
use crate::virtualmachine::nic::adapter::Nic;
use crate::virtualmachine::nic::observe::{NicFacts, observe_nics};
use crate::virtualmachine::nic::request::NicRequest;

#[cfg(test)]
mod tests;

/// The change to the watch on the guest's Secret or ConfigMap. While the guest's data isn't usable, a change to this object
/// requeues the VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DataSourceWatch {
    /// Keeps the current watch.
    #[default]
    Keep,
    /// Watches the object with this kind and name until its resource version differs from the given version, which is `None`
    /// for a missing object.
    Watch(DataSourceKind, String, Option<String>),
    /// Stops watching.
    Stop,
}

/// The user's data, and the object and version from which it was read.
pub struct DataSource {
    user_data: Need<UserData>,
    read_from: Option<(DataSourceKind, String, Option<String>)>,
}

type Data = (Option<String>, BTreeMap<String, Vec<u8>>);

/// Reads the guest's data from the Secret or ConfigMap that the spec names. If the spec doesn't name one, the data is empty.
pub async fn read_data_source(vm: &VirtualMachine, api: &Api) -> Result<DataSource, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let (kind, name, read) = match find_data_source(vm) {
        Err(unmet) => return Ok(DataSource { user_data: Err(unmet), read_from: None }),
        Ok(UserDataSource::None) => {
            return Ok(DataSource {
                user_data: user_data(vm, String::new(), BTreeMap::new()),
                read_from: None,
            });
        }
        Ok(UserDataSource::Secret(name)) => {
            let secret = api.get(Some(&namespace), name).await?;
            (DataSourceKind::Secret, name, secret.map(secret_data))
        }
        Ok(UserDataSource::ConfigMap(name)) => {
            let map = api.get(Some(&namespace), name).await?;
            (DataSourceKind::ConfigMap, name, map.map(map_data))
        }
    };
    let source = format!("{kind:?} {namespace}/{name}");
    let (version, user_data) = if let Some((version, data)) = read {
        (version, user_data(vm, source, data))
    } else {
        let message = format!("{source} (spec.vmMetadata) does not exist. Create it with the guest's data");
        (None, Err(Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)))
    };
    Ok(DataSource { user_data, read_from: Some((kind, name.to_owned(), version)) })
}

fn secret_data(secret: Secret) -> Data {
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    (secret.metadata.resource_version, data.collect())
}

fn map_data(map: ConfigMap) -> Data {
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    (map.metadata.resource_version, binary.chain(text).collect())
}

impl DataSource {
    /// Wraps data that wasn't read from an object.
    #[cfg(test)]
    pub fn of(user_data: Need<UserData>) -> Self {
        Self { user_data, read_from: None }
    }

    /// Returns the NICs of a VM to be created. They get generated MACs if the bootstrap data identifies NICs by MAC.
    pub fn with_macs(&self, nics: Vec<Nic>, identity: Identity, network: &GuestNetwork) -> Vec<Nic> {
        let named = |data: &UserData| names_nics(data, &nics, network);
        if !self.user_data.as_ref().is_ok_and(named) {
            return nics;
        }
        nics.into_iter().enumerate().map(|(at, nic)| nic.with_mac(identity, at)).collect()
    }

    /// Composes the bootstrap data for a VM to be created, and returns the change to the data source watch.
    pub async fn compose_new(
        self,
        vm: &VirtualMachine,
        identity: Identity,
        nics: Option<&[Nic]>,
        template: Option<&GoldenTemplate>,
        network: &GuestNetwork,
    ) -> (Need<Bootstrap>, DataSourceWatch) {
        let Self { user_data, read_from } = self;
        let need = match (user_data, nics, template) {
            (Err(unmet), ..) => Err(unmet),
            (Ok(data), Some(nics), Some(template)) => {
                let input = BootstrapInput {
                    identity,
                    nics,
                    present: template.devices.nics.len(),
                    properties: &template.properties,
                    defers: template.defers,
                    network,
                };
                compose_within_limits(vm, data, &input).await
            }
            // The bootstrap data depends on NICs and template, and without them the VM isn't created.
            (Ok(_), ..) => Ok(Bootstrap::default()),
        };
        let watch = watch_for(read_from, need.is_ok());
        (need, watch)
    }
}

fn watch_for(read_from: Option<(DataSourceKind, String, Option<String>)>, is_right: bool) -> DataSourceWatch {
    match read_from {
        Some((kind, name, version)) if !is_right => DataSourceWatch::Watch(kind, name, version),
        _ => DataSourceWatch::Stop,
    }
}

/// New bootstrap data for an existing VM.
#[derive(Debug)]
pub struct BootstrapUpdate {
    /// The data; `None` if the guest already has it.
    pub data: Need<Option<Bootstrap>>,
    /// The network provider requests that are needed to compose the data.
    pub nic_requests: Vec<NicRequest>,
    /// Keeps, starts or stops the watch on the guest's Secret or ConfigMap.
    pub watch: DataSourceWatch,
}

impl BootstrapUpdate {
    /// Returns an update that doesn't change anything.
    pub fn none() -> Self {
        Self { data: Ok(None), nic_requests: Vec::new(), watch: DataSourceWatch::Keep }
    }
}

/// Composes bootstrap data for an existing VM that is off and will be powered on, if its user changed the data or its NICs
/// change. `nics` contains the wanted NICs if they change.
///
/// A VM without a recorded [`HASH`] doesn't get new data. Guestinfo keys that the guest removed don't count as a change.
pub async fn observe_update(
    vm: &VirtualMachine,
    vsphere_vm: &Arc<Vm>,
    identity: Identity,
    nics: Option<&[Nic]>,
    access: &BootstrapSources<'_>,
) -> Result<BootstrapUpdate, Error> {
    let Some(hash) = vsphere_vm.extra_config.get(HASH).filter(|hash| !hash.is_empty()) else {
        return Ok(BootstrapUpdate::none());
    };
    let DataSource { user_data, read_from } = read_data_source(vm, access.api).await?;
    let data = match user_data {
        Ok(data) if nics.is_some() || data.hash(identity.bios) != *hash => data,
        // The user may delete the data once the VM has booted.
        Ok(_) | Err(_) => return Ok(BootstrapUpdate::none()),
    };
    let NicFacts { nics, requests } = match nics {
        Some(nics) => NicFacts { nics: Ok(nics.to_vec()), requests: Vec::new() },
        None => observe_nics(vm, vsphere_vm.pool.as_ref(), access.vcenter, access.caches).await?,
    };
    let nics = match nics {
        Ok(nics) => nics,
        Err(unmet) => {
            let watch = DataSourceWatch::Keep;
            return Ok(BootstrapUpdate { data: Err(unmet), nic_requests: requests, watch });
        }
    };
    let (properties, devices) = read_appliance(vsphere_vm, access.vcenter).await?;
    let (network, present) = (access.network, devices.nics.len());
    let nics = with_known_macs(nics, &devices.nics);
    let input =
        BootstrapInput { identity, nics: &nics, present, properties: &properties, defers: false, network };
    let need = compose_within_limits(vm, data, &input).await;
    let watch = watch_for(read_from, need.is_ok());
    Ok(BootstrapUpdate { data: need.map(Some), nic_requests: requests, watch })
}

/// The sources from which the bootstrap data of an existing VM is composed.
#[derive(Clone, Copy)]
pub struct BootstrapSources<'a> {
    /// The API client that reads the Secret or ConfigMap.
    pub api: &'a Api,
    pub vcenter: &'a VCenter,
    /// The caches of all watched kinds.
    pub caches: &'a Caches,
    /// Name servers and other settings for all guests.
    pub network: &'a GuestNetwork,
}

/// Adds the present NICs' MACs to the wanted NICs that don't have one. NICs correspond by index.
fn with_known_macs(nics: Vec<Nic>, present: &[VirtualNic]) -> Vec<Nic> {
    let known = present.iter().map(|here| here.address.clone()).chain(std::iter::repeat(None));
    nics.into_iter().zip(known).map(|(nic, known)| Nic { mac: nic.mac.or(known), ..nic }).collect()
}

/// Reads the VM's OVF properties and devices.
async fn read_appliance(
    vsphere_vm: &Vm,
    vcenter: &VCenter,
) -> Result<(Vec<VAppProperty>, Arc<Devices>), vsphere::Error> {
    let read =
        vcenter.client.retrieve(std::slice::from_ref(&vsphere_vm.moref), &["config.vAppConfig"]).await?;
    let properties = read.first().map(|vm| vm.get("config.vAppConfig").get("property").items());
    let properties = properties.unwrap_or_default().iter().filter_map(VAppProperty::read).collect();
    Ok((properties, vcenter.devices(vsphere_vm).await?))
}
