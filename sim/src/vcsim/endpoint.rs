//! What an admin knows of the simulated vCenter, and how a control plane gets to know it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use api::vmop::ProviderConfiguration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PROVIDER_CREDENTIALS: &str = "vcenter-credentials";
/// Where the simulated site's guests have their addresses.
const GUEST_ADDRESSES: &str = "10.0.0.0/8";

/// Name of the source of the library that VMs are published to.
const PUBLISHED: &str = "published";

/// What an admin knows of the simulated vCenter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VcenterEndpoint {
    /// Address and port, e.g. `127.0.0.1:40123`.
    pub authority: String,
    /// User name.
    pub username: String,
    /// Where the password is kept (file, 0600).
    pub password_file: PathBuf,
    /// The CA that signed its certificate (PEM file).
    pub ca_file: PathBuf,
    /// Address of the private control API.
    pub control: String,
    /// Where the control API's token is kept (file, 0600).
    pub control_token_file: PathBuf,
    /// MoID of the datacenter.
    pub datacenter: String,
    /// MoID of the resource pool that namespaces use.
    pub resource_pool: String,
    /// MoID of the folder that namespaces use.
    pub folder: String,
    /// Name of the datastore.
    pub datastore: String,
    /// Name of the port group of the nodes.
    pub network: String,
    /// MoIDs of all networks, by name.
    pub networks: BTreeMap<String, String>,
    /// NSX's UUIDs of those that are its segments, by name.
    pub segments: BTreeMap<String, String>,
    /// Id of the content library.
    pub library: String,
    /// Id of a library with one plain image, whose files are elsewhere until somebody asks for them.
    #[serde(default)]
    pub subscribed_library: String,
    /// Id of a local library with one node image, which no namespace is given yet.
    #[serde(default)]
    pub shared_library: String,
    /// Id of a local library that is empty, for VMs that are published.
    #[serde(default)]
    pub published_library: String,
}

impl VcenterEndpoint {
    /// URL of the SDK, without credentials.
    pub fn url(&self) -> String {
        format!("https://{}/sdk", self.authority)
    }

    /// The password.
    pub fn password(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.password_file)
    }

    /// Returns the Secret with the credentials, which the provider configuration names.
    ///
    /// # Errors
    /// If the password can't be read.
    pub fn credentials(&self, namespace: &str) -> std::io::Result<Value> {
        Ok(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": PROVIDER_CREDENTIALS, "namespace": namespace},
            "stringData": {"username": self.username, "password": self.password()?},
        }))
    }

    /// Returns the provider configuration for this vCenter.
    pub fn provider(&self) -> ProviderConfiguration {
        let (host, port) = self.authority.split_once(':').unwrap_or((&self.authority, "443"));
        ProviderConfiguration {
            vc_pnid: host.to_owned(),
            vc_port: port.to_owned(),
            vc_creds_secret_name: PROVIDER_CREDENTIALS.to_owned(),
            datacenter: self.datacenter.clone(),
            datastore: self.datastore.clone(),
            network: self.network.clone(),
            guest_address_ranges: GUEST_ADDRESSES.to_owned(),
            content_source: self.library.clone(),
            ca_file_path: self.ca_file.display().to_string(),
            ..ProviderConfiguration::default()
        }
    }

    /// What lets namespaces publish VMs, each by a ContentSourceBinding of its own: a source of the empty library.
    pub fn publish_source(&self) -> [Value; 2] {
        let group = "vmoperator.vmware.com/v1alpha1";
        let provider = json!({
            "apiVersion": group, "kind": "ContentLibraryProvider", "metadata": {"name": PUBLISHED},
            "spec": {"uuid": self.published_library},
        });
        let source = json!({
            "apiVersion": group, "kind": "ContentSource",
            "metadata": {"name": PUBLISHED, "labels": {"vmoperator.vmware.com/writable": "true"}},
            "spec": {"providerRef": {"apiVersion": group, "kind": "ContentLibraryProvider", "name": PUBLISHED}},
        });
        [provider, source]
    }

    /// The token of the control API.
    pub fn control_token(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.control_token_file)
    }
}
