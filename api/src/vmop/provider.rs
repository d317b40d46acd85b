//! The provider configuration: a ConfigMap with the VM operator's vCenter connection and settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The ConfigMap name, in the VM operator's namespace.
pub const PROVIDER_CONFIGURATION: &str = "vsphere.provider.config.vmoperator.vmware.com";

/// The ConfigMap data. The keys match those of VMware's vm-operator. An empty text is the same as an absent key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProviderConfiguration {
    /// vCenter host name or IP address, without scheme and port.
    #[serde(rename = "VcPNID")]
    pub vc_pnid: String,
    /// vCenter port. Default: 443.
    pub vc_port: String,
    /// Secret with `username` and `password`, in the same namespace.
    pub vc_creds_secret_name: String,
    /// Datacenter MoID.
    pub datacenter: String,
    /// Name of the datastore for VMs. Default: the datastore that vCenter chooses for the image's template.
    pub datastore: String,
    /// Default port group for NICs and VirtualNetworks.
    pub network: String,
    /// `NAMED`, `VSPHERE_NETWORK` or `NSXT`. Default: detected from the installed kinds.
    pub network_provider: String,
    /// Comma-separated CIDRs of guest addresses that no network provider assigns, for example with DHCP.
    pub guest_address_ranges: String,
    /// UUID of the content library with images for all namespaces.
    pub content_source: String,
    /// If `true`, only port 6443 of VMs is reachable, and readiness probes of other ports are rejected.
    pub is_restricted_network: String,
    /// Comma-separated users who can change protected fields like administrators.
    pub privileged_users: String,
    /// Console proxy address.
    pub web_console_proxy: String,
    /// MoID of the folder for golden templates, and for namespaces without a folder.
    pub folder: String,
    /// MoID of the resource pool for golden templates, and for namespaces without a resource pool.
    pub resource_pool: String,
    /// `linked` or `direct`: whether VM disks are linked clones of a golden template or full copies. Default: `linked`.
    pub fast_deploy_mode: String,
    /// `Disabled`, `Online` or `Offline`: when linked disks are promoted to full copies. Default: `Disabled`.
    pub promote_disks_mode: String,
    /// If `true`, VMs without a storage class are rejected.
    pub storage_class_required: String,
    /// The mark on this installation's VMs in vCenter. Default: a generated ID.
    #[serde(rename = "StackID")]
    pub stack_id: String,
    /// SHA-256 thumbprint of vCenter's certificate: `AB:CD:…`.
    pub thumbprint: String,
    /// Path of a CA bundle (PEM) in the VM operator's container.
    #[serde(rename = "CAFilePath")]
    pub ca_file_path: String,
    /// If `true`, vCenter's certificate isn't verified.
    #[serde(rename = "InsecureSkipTLSVerify")]
    pub insecure_skip_tls_verify: String,
    /// vCenter protocol: `auto`, `vijson` or `soap`. Default: `auto`.
    pub wire: String,
}

impl ProviderConfiguration {
    /// Parses the ConfigMap data. Trims white space around values and ignores unknown keys.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let members = data.iter().map(|(key, value)| (key.clone(), json!(value.trim()))).collect();
        serde_json::from_value(Value::Object(members)).unwrap_or_default()
    }

    /// Returns the ConfigMap data without unset keys.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let Ok(Value::Object(members)) = serde_json::to_value(self) else { return BTreeMap::new() };
        let texts = members.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
        texts.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Builds the ConfigMap with this configuration, for the VM operator's namespace.
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
