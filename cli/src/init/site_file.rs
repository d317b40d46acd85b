//! Parses a site file for an installation. This module doesn't perform I/O.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use api::ipam::{GlobalInClusterIpPool, InClusterIpPool};
use api::names::{VMOP_NAMESPACE, annotation};
use api::vmop::{PROVIDER_CONFIGURATION, ProviderConfiguration};
use components::render::NodeNetworkProvider;
use components::settings::SettingsByProgram;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Resource as _;
use serde_json::{Value, json};
use vmop::doctor::endpoints::AddressPool;
use vmop::doctor::new_site::NewSite;
use vsphere::MoRef;

use super::programs;
use crate::args::SiteNetworkProvider;

/// A parsed site file.
#[derive(Clone, Debug, Default)]
pub struct SiteFile {
    /// All objects in file order.
    pub objects: Vec<Value>,
    pub configuration: ProviderConfiguration,
    /// The program settings, or `None` if the file doesn't contain them.
    pub programs: Option<SettingsByProgram>,
}

impl SiteFile {
    /// Creates a cluster's site file from the data of its provider configuration. The file keeps keys that Layercake
    /// doesn't read, because it is applied over the stored ConfigMap.
    pub fn from_stored(data: &BTreeMap<String, String>) -> Result<Self> {
        let metadata = json!({ "name": PROVIDER_CONFIGURATION, "namespace": VMOP_NAMESPACE });
        Self::new(vec![
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }),
        ])
    }

    /// Finds the provider configuration among the objects, and checks its required keys. Also checks that the
    /// StorageClasses and the program settings are valid.
    pub fn new(objects: Vec<Value>) -> Result<Self> {
        let found: Vec<_> = objects.iter().filter(|object| is_configuration(object)).collect();
        ensure!(
            found.len() == 1,
            "the site file has {} ConfigMaps {VMOP_NAMESPACE}/{PROVIDER_CONFIGURATION}, and must have one. layercake site discover writes one",
            found.len()
        );
        let data = found[0]["data"].as_object().into_iter().flatten();
        let data = data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        let configuration = ProviderConfiguration::from_data(&data);
        let required = [
            ("VcPNID", &configuration.vc_pnid),
            ("VcCredsSecretName", &configuration.vc_creds_secret_name),
            ("Datacenter", &configuration.datacenter),
        ];
        for (key, value) in required {
            ensure!(
                !value.is_empty(),
                "ConfigMap {PROVIDER_CONFIGURATION} of the site file has no {key}. layercake site discover writes all keys"
            );
        }
        for class in objects.iter().filter(|object| object["kind"] == "StorageClass") {
            let read = serde_json::from_value::<StorageClass>(class.clone());
            read.with_context(|| {
                format!("StorageClass {} of the site file is not valid", class["metadata"]["name"])
            })?;
        }
        let programs = programs::find(&objects).map_err(|errors| anyhow!(errors.join("\nerror: ")))?;
        Ok(Self { objects, configuration, programs })
    }

    /// Returns vCenter's host name or address.
    pub fn vcenter(&self) -> &str {
        &self.configuration.vc_pnid
    }

    /// Returns vCenter's host name or address, followed by a colon and the port.
    pub fn vcenter_address(&self) -> String {
        match self.configuration.vc_port.as_str() {
            "" => format!("{}:443", self.vcenter()),
            port => format!("{}:{port}", self.vcenter()),
        }
    }

    /// Returns the content library with node images, or `None` if the file doesn't set one.
    pub fn library(&self) -> Option<&str> {
        Some(self.configuration.content_source.as_str()).filter(|library| !library.is_empty())
    }

    /// Returns the network provider as written in the provider configuration.
    pub fn network_provider(&self) -> &str {
        &self.configuration.network_provider
    }

    /// Returns an iterator over one object, the ConfigMap with the provider configuration.
    pub fn provider_configuration(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| is_configuration(object))
    }

    /// Returns the name of the credentials Secret.
    pub fn secret(&self) -> &str {
        &self.configuration.vc_creds_secret_name
    }

    pub fn networks(&self) -> NodeNetworkProvider {
        SiteNetworkProvider::of_key(self.network_provider()).networks()
    }

    pub fn storage_classes(&self) -> Vec<StorageClass> {
        let classes = self.objects.iter().filter(|object| object["kind"] == "StorageClass");
        classes.filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
    }

    /// Returns the address pools for control planes.
    fn pools(&self) -> Vec<AddressPool> {
        let is_pool = |object: &&Value| {
            object["kind"] == GlobalInClusterIpPool::kind(&()).as_ref()
                || object["kind"] == InClusterIpPool::kind(&()).as_ref()
        };
        let pool = |object: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            AddressPool {
                name: format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"])),
                addresses: object["spec"]["addresses"].as_array().into_iter().flatten().map(text).collect(),
            }
        };
        self.objects.iter().filter(is_pool).map(pool).collect()
    }

    /// Lists the file's objects for the output of a dry run.
    pub fn summary(&self) -> String {
        let name = |object: &Value| {
            let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
            let kind = object["kind"].as_str().unwrap_or_default();
            match text("namespace") {
                namespace if namespace.is_empty() => format!("{kind} {}", text("name")),
                namespace => format!("{kind} {namespace}/{}", text("name")),
            }
        };
        format!("apply {}", self.objects.iter().map(name).collect::<Vec<_>>().join(", "))
    }

    /// Returns the parts of the file that the vCenter checks need.
    pub fn new_site(&self, credentials: BTreeMap<String, Vec<u8>>) -> NewSite {
        let mut places = BTreeMap::new();
        for object in self.objects.iter().filter(|object| object["kind"] == "Namespace") {
            let user = format!("namespace {}", object["metadata"]["name"].as_str().unwrap_or_default());
            let annotated = |name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
            places
                .extend(annotated(annotation::NAMESPACE_FOLDER).map(|id| (MoRef::folder(id), user.clone())));
            places.extend(annotated(annotation::NAMESPACE_RESOURCE_POOL).map(|id| (MoRef::pool(id), user)));
        }
        let storage_classes = self.storage_classes();
        let (configuration, pools) = (self.configuration.clone(), self.pools());
        NewSite { configuration, credentials, places, storage_classes, pools }
    }
}

fn is_configuration(object: &Value) -> bool {
    object["kind"] == "ConfigMap"
        && object["metadata"]["name"] == PROVIDER_CONFIGURATION
        && object["metadata"]["namespace"] == VMOP_NAMESPACE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(data: &Value) -> Value {
        let metadata = json!({ "name": PROVIDER_CONFIGURATION, "namespace": VMOP_NAMESPACE });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
    }

    #[test]
    fn the_configuration_says_which_networks_there_are() {
        let data =
            json!({ "VcPNID": "vc", "VcCredsSecretName": "s", "Datacenter": "d", "NetworkProvider": "NSXT" });
        let site = SiteFile::new(vec![configuration(&data)]).unwrap();
        assert_eq!((site.networks(), site.vcenter(), site.secret()), (NodeNetworkProvider::Nsx, "vc", "s"));
    }

    #[test]
    fn a_stored_configuration_keeps_the_keys_of_other_programs() {
        let data =
            [("VcPNID", "vc"), ("VcCredsSecretName", "s"), ("Datacenter", "d"), ("CtrlVmVmAATag", "t")];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let site = SiteFile::from_stored(&data).unwrap();
        assert_eq!(site.objects[0]["data"], json!(data));
        assert_eq!(site.vcenter(), "vc");
    }

    #[test]
    fn a_file_without_what_is_needed_is_refused() {
        let refused = |objects: Vec<Value>| SiteFile::new(objects).unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("has 0 ConfigMaps"));
        let whole = configuration(&json!({ "VcPNID": "vc", "VcCredsSecretName": "s", "Datacenter": "d" }));
        assert!(refused(vec![whole.clone(), whole]).contains("has 2 ConfigMaps"));
        let refused = refused(vec![configuration(&json!({ "VcPNID": "vc", "VcCredsSecretName": "s" }))]);
        assert!(refused.contains("has no Datacenter"), "{refused}");
    }

    #[test]
    fn the_places_of_namespaces_are_checked() {
        let annotations =
            json!({ "vmware-system-vm-folder": "group-v3", "vmware-system-resource-pool": "resgroup-8" });
        let namespace =
            json!({ "kind": "Namespace", "metadata": { "name": "dev", "annotations": annotations } });
        let site = SiteFile { objects: vec![namespace], ..SiteFile::default() }.new_site(BTreeMap::new());
        let places: Vec<_> = site.places.iter().map(|(object, user)| format!("{object} {user}")).collect();
        assert_eq!(places.len(), 2);
        assert!(places.iter().all(|place| place.ends_with("namespace dev")), "{places:?}");
    }

    #[test]
    fn the_pools_of_addresses_are_checked() {
        let pool = |kind: &str| {
            let spec = json!({ "addresses": ["10.0.0.5-10.0.0.9"], "prefix": 24 });
            json!({ "kind": kind, "metadata": { "name": "control-planes" }, "spec": spec })
        };
        let objects = vec![pool("GlobalInClusterIPPool"), pool("InClusterIPPool"), pool("OtherPool")];
        let site = SiteFile { objects, ..SiteFile::default() }.new_site(BTreeMap::new());
        let names: Vec<_> = site.pools.iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["GlobalInClusterIPPool control-planes", "InClusterIPPool control-planes"]);
        assert_eq!(site.pools[0].addresses, ["10.0.0.5-10.0.0.9"]);
    }
}
