//! Generates a site's manifests. This module doesn't perform I/O.

use std::collections::BTreeMap;

use api::names::VMOP_NAMESPACE;
use api::vmop::ProviderConfiguration;
use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::addresses::Endpoints;
use super::choice::Candidate;
use crate::args::SiteNetworkProvider;

/// The contents of a site file.
#[derive(Clone, Debug)]
pub struct SiteFileContents {
    /// vCenter's host name or address.
    pub host: String,
    /// vCenter's port.
    pub port: u16,
    /// The SHA-256 thumbprint of vCenter's certificate, or `None` if the operating system trusts it.
    pub thumbprint: Option<String>,
    pub datacenter: Candidate,
    pub datastore: Candidate,
    pub library: Candidate,
    pub provider: SiteNetworkProvider,
    /// The nodes' port group.
    pub network: Option<Candidate>,
    /// The ranges in which DHCP assigns addresses to nodes.
    pub node_addresses: Vec<Ipv4Net>,
    /// The control plane addresses.
    pub endpoints: Option<Endpoints>,
    /// A namespace for a team.
    pub namespace: Option<SiteNamespace>,
}

/// A namespace in which a team creates clusters.
#[derive(Clone, Debug)]
pub struct SiteNamespace {
    pub name: String,
    /// The resource pool for the namespace's VMs.
    pub pool: Candidate,
    /// The folder for the namespace's VMs.
    pub folder: Candidate,
    /// The storage policy that the namespace's StorageClass uses.
    pub policy: Candidate,
    /// The VM classes that the namespace may use.
    pub classes: Vec<String>,
}

impl SiteFileContents {
    /// Returns the objects in apply order.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = vec![self.configuration()];
        objects.extend(self.endpoints.as_ref().map(pool));
        objects.extend(self.namespace.iter().flat_map(SiteNamespace::objects));
        objects
    }

    fn configuration(&self) -> Value {
        let ranges: Vec<_> = self.node_addresses.iter().map(ToString::to_string).collect();
        let configuration = ProviderConfiguration {
            vc_pnid: self.host.clone(),
            vc_port: self.port.to_string(),
            vc_creds_secret_name: "vcenter-credentials".to_owned(),
            datacenter: self.datacenter.id.clone(),
            datastore: self.datastore.name.clone(),
            content_source: self.library.id.clone(),
            network: self.network.as_ref().map(|network| network.name.clone()).unwrap_or_default(),
            network_provider: self.provider.key().to_owned(),
            guest_address_ranges: ranges.join(","),
            thumbprint: self.thumbprint.clone().unwrap_or_default(),
            ..ProviderConfiguration::default()
        };
        configuration.config_map(VMOP_NAMESPACE)
    }
}

/// Returns the IPAM pool for control plane addresses, with the name that `config/capw` uses.
fn pool(endpoints: &Endpoints) -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "GlobalInClusterIPPool",
        "metadata": { "name": "control-planes" },
        "spec": {
            "addresses": [endpoints.range()], "prefix": endpoints.prefix, "gateway": endpoints.gateway.to_string(),
        },
    })
}

impl SiteNamespace {
    /// Returns the StorageClass name for the policy, derived like in vSphere's Supervisor.
    pub fn storage_class(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.policy.name.chars().map(plain).collect();
        let parts: Vec<_> = name.split('-').filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { "policy".to_owned() } else { parts.join("-") }
    }

    fn objects(&self) -> Vec<Value> {
        let class = self.storage_class();
        let mut objects = vec![
            namespace(&self.name, &self.pool.id, &self.folder.id),
            storage_class(&class, &self.policy.id),
            storage_quota("storage", &self.name, [class.as_str()]),
        ];
        objects.extend(self.classes.iter().map(|class| class_binding(class, &self.name)));
        objects
    }
}

/// Returns a Namespace with this resource pool and folder for its VMs. Both are MoIDs.
pub fn namespace(name: &str, pool: &str, folder: &str) -> Value {
    let annotations = json!({ "vmware-system-resource-pool": pool, "vmware-system-vm-folder": folder });
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "annotations": annotations },
    })
}

/// Returns the StorageClass for a storage policy. `policy` is the policy's ID.
pub fn storage_class(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": "csi.vsphere.vmware.com",
        "parameters": { "storagePolicyID": policy },
    })
}

/// Returns the ResourceQuota that lets a namespace use 1 TiB of each storage class.
pub fn storage_quota<'a>(name: &str, namespace: &str, classes: impl IntoIterator<Item = &'a str>) -> Value {
    let keys = classes.into_iter();
    let hard: BTreeMap<_, _> =
        keys.map(|class| (format!("{class}.storageclass.storage.k8s.io/requests.storage"), "1Ti")).collect();
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "hard": hard },
    })
}

/// Returns the VirtualMachineClassBinding that lets a namespace use a VM class.
pub fn class_binding(class: &str, namespace: &str) -> Value {
    let group = "vmoperator.vmware.com/v1alpha1";
    json!({
        "apiVersion": group, "kind": "VirtualMachineClassBinding",
        "metadata": { "name": class, "namespace": namespace },
        "classRef": { "apiVersion": group, "kind": "VirtualMachineClass", "name": class },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::manifest::yaml;

    fn candidate(name: &str, id: &str) -> Candidate {
        Candidate { name: name.to_owned(), id: id.to_owned() }
    }

    fn site() -> SiteFileContents {
        SiteFileContents {
            host: "vc.example.com".to_owned(),
            port: 443,
            thumbprint: Some("5B:E2".to_owned()),
            datacenter: candidate("dc0", "datacenter-2"),
            datastore: candidate("vsanDatastore", "datastore-9"),
            library: candidate("releases", "0a8c3f1e"),
            provider: SiteNetworkProvider::PortGroups,
            network: Some(candidate("workload", "dvportgroup-7")),
            node_addresses: vec!["10.20.128.0/17".parse().unwrap(), "10.21.0.0/24".parse().unwrap()],
            endpoints: Some(Endpoints::read("10.20.0.10-10.20.0.99", 16, [10, 20, 0, 1].into()).unwrap()),
            namespace: Some(SiteNamespace {
                name: "dev".to_owned(),
                pool: candidate("cluster", "resgroup-8"),
                folder: candidate("layercake", "group-v41"),
                policy: candidate("vSAN Default Storage Policy", "aa6d5a82"),
                classes: vec!["best-effort-small".to_owned()],
            }),
        }
    }

    #[test]
    fn a_site_is_plain_manifests() {
        insta::assert_snapshot!(yaml(&site().objects()).unwrap());
    }

    #[test]
    fn behind_nsx_a_site_names_no_network_and_no_addresses() {
        let site = SiteFileContents {
            provider: SiteNetworkProvider::Nsx,
            network: None,
            node_addresses: Vec::new(),
            endpoints: None,
            namespace: None,
            thumbprint: None,
            ..site()
        };
        insta::assert_snapshot!(yaml(&site.objects()).unwrap());
    }

    #[test]
    fn storage_classes_have_names_that_kubernetes_accepts() {
        for (policy, class) in [
            ("Gold", "gold"),
            ("VM Encryption Policy", "vm-encryption-policy"),
            ("__a (b)_", "a-b"),
            ("é", "policy"),
        ] {
            let mut namespace = site().namespace.unwrap();
            namespace.policy.name = policy.to_owned();
            assert_eq!(namespace.storage_class(), class);
        }
    }
}
