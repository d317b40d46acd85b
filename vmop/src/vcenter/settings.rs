//! What the administrator configured: one ConfigMap and one Secret, named and keyed as vm-operator's.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;
use vsphere::{Secret, WireChoice};

/// The ConfigMap in the operator's own namespace that says which vCenter to use.
pub const CONFIG_MAP: &str = "vsphere.provider.config.vmoperator.vmware.com";
/// The annotation of that ConfigMap whose change has the operator read the content libraries, whatever its value.
pub const LIBRARIES_CHANGED: &str = "vmoperator.vmware.com/libraries-changed-at";

/// How the vCenter's certificate is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By the CA bundle in this file (`CAFilePath`).
    CaFile(String),
    /// By its SHA-256 fingerprint (`Thumbprint`).
    Thumbprint(String),
    /// Not at all (`InsecureSkipTLSVerify`).
    Nobody,
    /// By the CAs of the web.
    Public,
}

/// Who says which networks the network adapters of VMs are connected to (`NetworkProvider`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkProvider {
    /// Nobody: networks are named (`NAMED`).
    Named,
    /// net-operator (`VSPHERE_NETWORK`).
    Distributed,
    /// NSX (`NSXT`).
    Nsx,
}

impl NetworkProvider {
    /// The provider of that name; `None` where there is none.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "NAMED" => Self::Named,
            "VSPHERE_NETWORK" => Self::Distributed,
            "NSXT" => Self::Nsx,
            _ => return None,
        })
    }

    /// Whether an object is requested for each network adapter.
    pub fn has_objects(self) -> bool {
        self != Self::Named
    }
}

/// When disks that are linked to a template's are made a VM's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromoteDisks {
    /// Never.
    #[default]
    Disabled,
    /// While the VM runs.
    Online,
    /// While it is off.
    Offline,
}

impl PromoteDisks {
    /// The mode of that name; `None` where there is none.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "Disabled" => Self::Disabled,
            "Online" => Self::Online,
            "Offline" => Self::Offline,
            _ => return None,
        })
    }
}

/// The Secret with user name and password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialsSecret {
    /// Its name (`VcCredsSecretName`).
    pub name: String,
    /// Its UID, by which events about it are found.
    pub uid: String,
}

/// The provider configuration, complete and checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// Host name or address of the vCenter (`VcPNID`).
    pub host: String,
    /// Port of the vCenter (`VcPort`).
    pub port: u16,
    /// MoID of the datacenter (`Datacenter`).
    pub datacenter: String,
    /// Name of the datastore VMs are made on (`Datastore`); the image's own where it is empty.
    pub datastore: Option<String>,
    /// Port group of a VM that names none, and of NSX networks where there is no NSX (`Network`).
    pub network: Option<String>,
    /// Where guests have their addresses, beside those that a network provider assigns (`GuestAddressRanges`).
    pub guest_address_ranges: Vec<IpNet>,
    /// Who says which networks network adapters are connected to (`NetworkProvider`); where it is left out, whoever is there.
    pub network_provider: Option<NetworkProvider>,
    /// UUID of the content library that holds the images (`ContentSource`).
    pub library: Option<String>,
    /// Address of the proxy to the VMs' consoles (`WebConsoleProxy`).
    pub console_proxy: Option<String>,
    /// MoID of the folder for golden templates (`Folder`); else the namespace's.
    pub folder: Option<String>,
    /// MoID of the pool for golden templates (`ResourcePool`); else the namespace's.
    pub resource_pool: Option<String>,
    /// Whether disks are copied from the template rather than linked to it (`FastDeployMode`: `linked`, `direct`).
    pub direct: bool,
    /// When linked disks are made a VM's own, of VMs that don't say so themselves (`PromoteDisksMode`).
    pub promote_disks: PromoteDisks,
    /// Whether a VM without a storage class is refused (`StorageClassRequired`).
    pub storage_class_required: bool,
    /// Marks what this stack made (`StackID`, else one that is drawn), so that two stacks can share a folder.
    pub stack: String,
    /// How the certificate is judged.
    pub trust: Trust,
    /// Which protocol is spoken (`Wire`).
    pub wire: WireChoice,
    /// The credentials Secret.
    pub secret: CredentialsSecret,
    /// User name from the credentials Secret.
    pub username: String,
    /// Password from the credentials Secret.
    pub password: Secret,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({}, datacenter {})", self.address(), self.datacenter)
    }
}

/// A configuration that can't be used, with the object and key to mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// The ConfigMap is not there.
    #[error(
        "ConfigMap {0}/{CONFIG_MAP} does not exist. Create it with VcPNID, Datacenter and VcCredsSecretName"
    )]
    NoConfigMap(String),
    /// A key the operator can't do without is missing or empty.
    #[error("ConfigMap {0}/{CONFIG_MAP} has no {1}. Add the key")]
    NoKey(String, &'static str),
    /// A key has a value that can't be read.
    #[error("ConfigMap {0}/{CONFIG_MAP}: {1} is {2:?}, which is not {3}")]
    BadKey(String, &'static str, String, &'static str),
    /// The Secret with the credentials is not there.
    #[error(
        "Secret {0}/{1} (VcCredsSecretName) does not exist. Create it with the keys username and password"
    )]
    NoSecret(String, String),
    /// The Secret lacks a key.
    #[error("Secret {0}/{1} (VcCredsSecretName) has no {2}. Add the key")]
    NoCredential(String, String, &'static str),
}

/// The ConfigMap's own part: everything but the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigData<'a> {
    namespace: &'a str,
    data: &'a BTreeMap<String, String>,
}

impl<'a> ConfigData<'a> {
    /// The data of the ConfigMap in `namespace`; `None` where there is no such ConfigMap.
    pub fn new(
        namespace: &'a str,
        data: Option<&'a BTreeMap<String, String>>,
    ) -> Result<Self, ConfigProblem> {
        let data = data.ok_or_else(|| ConfigProblem::NoConfigMap(namespace.to_owned()))?;
        Ok(Self { namespace, data })
    }

    /// Name of the Secret with user name and password.
    pub fn credentials_secret(&self) -> Result<&'a str, ConfigProblem> {
        self.required("VcCredsSecretName")
    }

    /// The settings, with the credentials out of the Secret; `None` where there is no Secret.
    pub fn settings(&self, secret: Option<&BTreeMap<String, Vec<u8>>>) -> Result<Settings, ConfigProblem> {
        let name = self.credentials_secret()?;
        let secret = secret.ok_or_else(|| ConfigProblem::NoSecret(self.namespace.into(), name.into()))?;
        let credential = |key: &'static str| {
            secret
                .get(key)
                .and_then(|value| std::str::from_utf8(value).ok())
                // The line end that editors and `--from-file` leave is no part of it.
                .map(|value| value.trim_end_matches(['\r', '\n']))
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| ConfigProblem::NoCredential(self.namespace.into(), name.into(), key))
        };
        Ok(Settings {
            host: self.host()?,
            port: self.parse_key("VcPort", "a port number", |port| port.parse().ok())?.unwrap_or(443),
            datacenter: self.required("Datacenter")?.to_owned(),
            datastore: self.optional("Datastore"),
            network: self.optional("Network"),
            guest_address_ranges: self.guest_address_ranges()?,
            network_provider: self.parse_key(
                "NetworkProvider",
                "NAMED, VSPHERE_NETWORK or NSXT",
                NetworkProvider::of,
            )?,
            library: self.optional("ContentSource"),
            console_proxy: self.optional("WebConsoleProxy"),
            folder: self.optional("Folder"),
            resource_pool: self.optional("ResourcePool"),
            direct: self.direct()?,
            promote_disks: self
                .parse_key("PromoteDisksMode", "Disabled, Online or Offline", PromoteDisks::of)?
                .unwrap_or_default(),
            storage_class_required: self.flag("StorageClassRequired")?,
            stack: self.optional("StackID").unwrap_or_default(),
            trust: self.trust()?,
            wire: self.wire()?,
            secret: CredentialsSecret { name: name.into(), uid: String::new() },
            username: credential("username")?,
            password: credential("password")?.into(),
        })
    }

    /// The host alone: a URL, as govc's GOVC_URL has, or a port would become part of a host name that cannot be found.
    fn host(&self) -> Result<String, ConfigProblem> {
        let host = self.required("VcPNID")?;
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if address.parse::<std::net::IpAddr>().is_ok() || host.chars().all(is_name) {
            return Ok(host.to_owned());
        }
        let kind =
            "a host name or an IP address alone. Leave out scheme and path, and put the port into VcPort";
        Err(ConfigProblem::BadKey(self.namespace.to_owned(), "VcPNID", host.to_owned(), kind))
    }

    fn optional(&self, key: &str) -> Option<String> {
        self.data.get(key).map(|value| value.trim()).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    fn required(&self, key: &'static str) -> Result<&'a str, ConfigProblem> {
        self.data
            .get(key)
            .map(|value| value.trim())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ConfigProblem::NoKey(self.namespace.to_owned(), key))
    }

    /// Returns the value of `key`, parsed by `read`; `None` if the key is absent. The error says that the value should be `kind`.
    fn parse_key<T>(
        &self,
        key: &'static str,
        kind: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigProblem> {
        let Some(value) = self.optional(key) else { return Ok(None) };
        let parsed = read(&value);
        parsed.map(Some).ok_or_else(|| ConfigProblem::BadKey(self.namespace.to_owned(), key, value, kind))
    }

    fn flag(&self, key: &'static str) -> Result<bool, ConfigProblem> {
        let flag = self.parse_key(key, "\"true\" or \"false\"", |value| value.parse().ok())?;
        Ok(flag.unwrap_or(false))
    }

    fn direct(&self) -> Result<bool, ConfigProblem> {
        let mode = self.parse_key("FastDeployMode", "linked or direct", |mode| match mode {
            "linked" => Some(false),
            "direct" => Some(true),
            _ => None,
        })?;
        Ok(mode.unwrap_or(false))
    }

    fn wire(&self) -> Result<WireChoice, ConfigProblem> {
        let wire = self.parse_key("Wire", "\"auto\", \"vijson\" or \"soap\"", |wire| match wire {
            "auto" => Some(WireChoice::Auto),
            "vijson" => Some(WireChoice::ViJson),
            "soap" => Some(WireChoice::Soap),
            _ => None,
        })?;
        Ok(wire.unwrap_or(WireChoice::Auto))
    }

    fn guest_address_ranges(&self) -> Result<Vec<IpNet>, ConfigProblem> {
        let kind = "a list of CIDRs divided by commas, such as 10.20.0.0/16";
        let read = |text: &str| -> Option<Vec<IpNet>> {
            let ranges = text.split(',').map(str::trim).filter(|range| !range.is_empty());
            ranges.map(|range| range.parse().ok()).collect()
        };
        Ok(self.parse_key("GuestAddressRanges", kind, read)?.unwrap_or_default())
    }

    fn trust(&self) -> Result<Trust, ConfigProblem> {
        if let Some(thumbprint) = self.optional("Thumbprint") {
            return Ok(Trust::Thumbprint(thumbprint));
        }
        if self.flag("InsecureSkipTLSVerify")? {
            return Ok(Trust::Nobody);
        }
        Ok(self.optional("CAFilePath").map_or(Trust::Public, Trust::CaFile))
    }
}

impl Settings {
    /// Whether the other ones name the same vCenter and all else alike, and only someone else logs in.
    pub fn differ_in_credentials_only(&self, other: &Self) -> bool {
        let Self { secret, username, password, .. } = other.clone();
        let same = Self { secret, username, password, ..self.clone() };
        self != other && same == *other
    }

    /// `host:port`, for people.
    pub fn address(&self) -> String {
        if self.host.contains(':') && !self.host.starts_with('[') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests;
