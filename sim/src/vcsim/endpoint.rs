//! What an admin knows of the simulated vCenter, and how a control plane gets to know it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PROVIDER_CREDENTIALS: &str = "vcenter-credentials";
const PROVIDER_CONFIGURATION: &str = "vsphere.provider.config.vmoperator.vmware.com";

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

    /// What tells the VM operator of this vCenter: the provider configuration and the credentials it names.
    ///
    /// `wire` is a value of its key `Wire`, `stack` one of `StackID`. Fails where the password can't be read.
    pub fn provider(&self, namespace: &str, stack: &str, wire: &str) -> std::io::Result<[Value; 2]> {
        let (host, port) = self.authority.split_once(':').unwrap_or((&self.authority, "443"));
        let credentials = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": PROVIDER_CREDENTIALS, "namespace": namespace},
            "stringData": {"username": self.username, "password": self.password()?},
        });
        let configuration = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": PROVIDER_CONFIGURATION, "namespace": namespace},
            "data": {
                "VcPNID": host,
                "VcPort": port,
                "VcCredsSecretName": PROVIDER_CREDENTIALS,
                "Datacenter": self.datacenter,
                "Datastore": self.datastore,
                "Network": self.network,
                "ContentSource": self.library,
                "CAFilePath": self.ca_file,
                "StackID": stack,
                "Wire": wire,
            },
        });
        Ok([credentials, configuration])
    }

    /// The token of the control API.
    pub fn control_token(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.control_token_file)
    }
}
