//! The provider configuration: the ConfigMap that tells the VM operator which vCenter to use, and how.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the ConfigMap. It is in the namespace of the VM operator.
pub const PROVIDER_CONFIGURATION: &str = "vsphere.provider.config.vmoperator.vmware.com";

/// The data of the ConfigMap. VMware's vm-operator uses the same keys for the same settings. An empty text stands for an absent key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProviderConfiguration {
    /// Host name or address of vCenter, without scheme and port.
    #[serde(rename = "VcPNID")]
    pub vc_pnid: String,
    /// Port of vCenter; 443 by default.
    pub vc_port: String,
    /// The Secret in the same namespace with `username` and `password`.
    pub vc_creds_secret_name: String,
    /// MoID of the datacenter.
    pub datacenter: String,
    /// Name of the datastore for VMs; by default that of the image.
    pub datastore: String,
    /// Name of the network for VMs that name none.
    pub network: String,
    /// `NAMED`, `VSPHERE_NETWORK` or `NSXT`.
    pub network_provider: String,
    /// CIDRs, separated by commas, of the addresses that guests can have beside those that a network provider assigns.
    pub guest_address_ranges: String,
    /// UUID of the content library with images.
    pub content_source: String,
    /// `true`: VMs are reached on port 6443 only, so no readiness probe connects to another port.
    pub is_restricted_network: String,
    /// Users, separated by commas, who have an administrator's rights over protected fields.
    pub privileged_users: String,
    /// Address of the proxy to VM consoles.
    pub web_console_proxy: String,
    /// MoID of the folder for golden templates.
    pub folder: String,
    /// MoID of the resource pool for golden templates.
    pub resource_pool: String,
    /// `linked` or `direct`: whether a VM's disks depend on those of a golden template.
    pub fast_deploy_mode: String,
    /// `Disabled`, `Online` or `Offline`: when linked disks are made independent of the golden template.
    pub promote_disks_mode: String,
    /// `true`: a VM must name a storage class.
    pub storage_class_required: String,
    /// Marks the VMs of this installation in vCenter; by default a random text.
    #[serde(rename = "StackID")]
    pub stack_id: String,
    /// SHA-256 of vCenter's certificate, as `AB:CD:…`.
    pub thumbprint: String,
    /// Path of a CA bundle (PEM) in the container of the VM operator.
    #[serde(rename = "CAFilePath")]
    pub ca_file_path: String,
    /// `true`: vCenter's certificate is not verified.
    #[serde(rename = "InsecureSkipTLSVerify")]
    pub insecure_skip_tls_verify: String,
    /// `auto`, `vijson` or `soap`: the protocol for vCenter.
    pub wire: String,
}

impl ProviderConfiguration {
    /// Reads the data of the ConfigMap, without white space around values. Other keys are ignored.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let members = data.iter().map(|(key, value)| (key.clone(), json!(value.trim()))).collect();
        serde_json::from_value(Value::Object(members)).unwrap_or_default()
    }

    /// Returns the data of the ConfigMap, without keys that are not set.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let Ok(Value::Object(members)) = serde_json::to_value(self) else { return BTreeMap::new() };
        let texts = members.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
        texts.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Returns the ConfigMap.
    #[must_use]
    pub fn config_map(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": PROVIDER_CONFIGURATION, "namespace": namespace },
            "data": self.data(),
        })
    }
}

#[test]
fn every_setting_has_the_key_of_its_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../vmop/README.md")).unwrap();
    let all = serde_json::to_value(ProviderConfiguration::default()).unwrap_or_default();
    for key in all.as_object().into_iter().flat_map(|members| members.keys()) {
        assert!(page.contains(&format!("`{key}`")), "{key} is not on the page");
    }
}

#[test]
fn data_is_read_as_it_is_written() {
    let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let read = ProviderConfiguration::from_data(&data(&[
        ("VcPNID", " vc.example.com\n"),
        ("CAFilePath", "/ca.crt"),
        ("Folder", " "),
        ("CtrlVmVmAATag", "other"),
    ]));
    assert_eq!(read.vc_pnid, "vc.example.com");
    assert_eq!(read.data(), data(&[("VcPNID", "vc.example.com"), ("CAFilePath", "/ca.crt")]));
}
