//! Connection data for the simulated vCenter, and the objects with which a control plane is configured for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use api::vmop::ProviderConfiguration;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PROVIDER_CREDENTIALS: &str = "vcenter-credentials";
/// The address range for guests on a simulated site.
const GUEST_ADDRESSES: &str = "10.0.0.0/8";

/// The name of the ContentSource to which VMs are published.
const PUBLISHED: &str = "published";

/// The address, credentials and inventory ids that an administrator needs for the simulated vCenter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VcenterEndpoint {
    /// The address and port, for example `127.0.0.1:40123`.
    pub authority: String,
    /// The user name for the vCenter login.
    pub username: String,
    /// The path to the password file (mode 0600).
    pub password_file: PathBuf,
    /// The path to the CA certificate (PEM) that verifies the server certificate.
    pub ca_file: PathBuf,
    /// The base URL for the private control API.
    pub control: String,
    /// The path to the control API token (mode 0600).
    pub control_token_file: PathBuf,
    /// The datacenter's managed object id.
    pub datacenter: String,
    /// The managed object id of the namespaces' resource pool.
    pub resource_pool: String,
    /// The managed object id of the namespaces' folder.
    pub folder: String,
    /// The name of the datastore for VMs.
    pub datastore: String,
    /// The name of the port group for nodes.
    pub network: String,
    /// The managed object ids of all networks, by name.
    pub networks: BTreeMap<String, String>,
    /// The NSX UUIDs of the networks that are NSX segments, by name.
    pub segments: BTreeMap<String, String>,
    /// The id of the content library with the site's node images.
    pub library: String,
    /// The id of a subscribed library with one plain image, whose files are downloaded on demand.
    #[serde(default)]
    pub subscribed_library: String,
    /// The id of a local library with one node image. Initially, namespaces don't have access to it.
    #[serde(default)]
    pub shared_library: String,
    /// The id of an empty local library, to which VMs can be published.
    #[serde(default)]
    pub published_library: String,
}

impl VcenterEndpoint {
    /// Returns the SDK URL, without credentials.
    pub fn url(&self) -> String {
        format!("https://{}/sdk", self.authority)
    }

    /// Reads the password from its file.
    pub fn password(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.password_file)
    }

    /// Returns the credentials Secret to which the provider configuration refers.
    ///
    /// # Errors
    /// Returns an error if the password file can't be read.
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

    /// Returns a ContentLibraryProvider and a writable ContentSource for the empty library.
    ///
    /// A namespace with a ContentSourceBinding to this source can publish VMs.
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

    /// Reads the control API token from its file.
    pub fn control_token(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.control_token_file)
    }
}
