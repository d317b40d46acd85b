//! What the administrator configured: one ConfigMap and one Secret, named and keyed as vm-operator's.

use std::collections::BTreeMap;
use std::fmt;

use api::vmop::{PROVIDER_CONFIGURATION, ProviderConfiguration};
use ipnet::IpNet;
use vsphere::{Secret, WireChoice};

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
        "ConfigMap {0}/{PROVIDER_CONFIGURATION} does not exist. Create it with VcPNID, Datacenter and VcCredsSecretName"
    )]
    NoConfigMap(String),
    /// A key the operator can't do without is missing or empty.
    #[error("ConfigMap {0}/{PROVIDER_CONFIGURATION} has no {1}. Add the key")]
    NoKey(String, &'static str),
    /// A key has a value that can't be read.
    #[error("ConfigMap {0}/{PROVIDER_CONFIGURATION}: {1} is {2:?}, which is not {3}")]
    BadKey(String, &'static str, String, &'static str),
    /// The certificate is to be verified, and is not to be verified.
    #[error(
        "ConfigMap {0}/{PROVIDER_CONFIGURATION} sets {1}, which verifies vCenter's certificate, and InsecureSkipTLSVerify, which does not. Remove InsecureSkipTLSVerify"
    )]
    InsecureBeside(String, &'static str),
    /// The Secret with the credentials is not there.
    #[error(
        "Secret {0}/{1} (VcCredsSecretName) does not exist. Create it with the keys username and password"
    )]
    NoSecret(String, String),
    /// The Secret lacks a key.
    #[error("Secret {0}/{1} (VcCredsSecretName) has no {2}. Add the key")]
    NoCredential(String, String, &'static str),
}

/// The provider configuration, not yet checked, without the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigData<'a> {
    /// The namespace of the ConfigMap.
    pub namespace: &'a str,
    /// Its data.
    pub given: ProviderConfiguration,
}

impl<'a> ConfigData<'a> {
    /// Reads the data of the ConfigMap in `namespace`; `None` if it does not exist.
    pub fn new(namespace: &'a str, data: Option<&BTreeMap<String, String>>) -> Result<Self, ConfigProblem> {
        let data = data.ok_or_else(|| ConfigProblem::NoConfigMap(namespace.to_owned()))?;
        Ok(Self { namespace, given: ProviderConfiguration::from_data(data) })
    }

    /// Name of the Secret with user name and password.
    pub fn credentials_secret(&self) -> Result<&str, ConfigProblem> {
        self.required("VcCredsSecretName", &self.given.vc_creds_secret_name)
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
        let given = &self.given;
        Ok(Settings {
            host: self.host()?,
            port: self
                .parse("VcPort", &given.vc_port, "a port number", |port| port.parse().ok())?
                .unwrap_or(443),
            datacenter: self.required("Datacenter", &given.datacenter)?.to_owned(),
            datastore: optional(&given.datastore),
            network: optional(&given.network),
            guest_address_ranges: self.guest_address_ranges()?,
            network_provider: self.parse(
                "NetworkProvider",
                &given.network_provider,
                "NAMED, VSPHERE_NETWORK or NSXT",
                NetworkProvider::of,
            )?,
            library: optional(&given.content_source),
            console_proxy: optional(&given.web_console_proxy),
            folder: optional(&given.folder),
            resource_pool: optional(&given.resource_pool),
            direct: self.direct()?,
            promote_disks: self
                .parse(
                    "PromoteDisksMode",
                    &given.promote_disks_mode,
                    "Disabled, Online or Offline",
                    PromoteDisks::of,
                )?
                .unwrap_or_default(),
            storage_class_required: self.flag("StorageClassRequired", &given.storage_class_required)?,
            stack: given.stack_id.clone(),
            trust: self.trust()?,
            wire: self.wire()?,
            secret: CredentialsSecret { name: name.into(), uid: String::new() },
            username: credential("username")?,
            password: credential("password")?.into(),
        })
    }

    /// The host alone: a URL, as govc's GOVC_URL has, or a port would become part of a host name that cannot be found.
    fn host(&self) -> Result<String, ConfigProblem> {
        let host = self.required("VcPNID", &self.given.vc_pnid)?;
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if address.parse::<std::net::IpAddr>().is_ok() || host.chars().all(is_name) {
            return Ok(host.to_owned());
        }
        let kind =
            "a host name or an IP address alone. Leave out scheme and path, and put the port into VcPort";
        Err(ConfigProblem::BadKey(self.namespace.to_owned(), "VcPNID", host.to_owned(), kind))
    }

    fn required<'v>(&self, key: &'static str, value: &'v str) -> Result<&'v str, ConfigProblem> {
        if value.is_empty() {
            return Err(ConfigProblem::NoKey(self.namespace.to_owned(), key));
        }
        Ok(value)
    }

    /// Returns the value of `key`, parsed by `read`; `None` if the key is absent. The error says that the value should be `kind`.
    fn parse<T>(
        &self,
        key: &'static str,
        value: &str,
        kind: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigProblem> {
        if value.is_empty() {
            return Ok(None);
        }
        let bad = || ConfigProblem::BadKey(self.namespace.to_owned(), key, value.to_owned(), kind);
        read(value).map(Some).ok_or_else(bad)
    }

    fn flag(&self, key: &'static str, value: &str) -> Result<bool, ConfigProblem> {
        let flag = self.parse(key, value, "\"true\" or \"false\"", |value| value.parse().ok())?;
        Ok(flag.unwrap_or(false))
    }

    fn direct(&self) -> Result<bool, ConfigProblem> {
        let given = &self.given.fast_deploy_mode;
        let mode = self.parse("FastDeployMode", given, "linked or direct", |mode| match mode {
            "linked" => Some(false),
            "direct" => Some(true),
            _ => None,
        })?;
        Ok(mode.unwrap_or(false))
    }

    fn wire(&self) -> Result<WireChoice, ConfigProblem> {
        let kind = "\"auto\", \"vijson\" or \"soap\"";
        let wire = self.parse("Wire", &self.given.wire, kind, |wire| match wire {
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
        let given = &self.given.guest_address_ranges;
        Ok(self.parse("GuestAddressRanges", given, kind, read)?.unwrap_or_default())
    }

    /// Returns the strictest way that is configured. `InsecureSkipTLSVerify` beside another way is refused, because one of them must be
    /// a mistake.
    fn trust(&self) -> Result<Trust, ConfigProblem> {
        let insecure = self.flag("InsecureSkipTLSVerify", &self.given.insecure_skip_tls_verify)?;
        let (thumbprint, ca_file) = (optional(&self.given.thumbprint), optional(&self.given.ca_file_path));
        let (key, trust) = match (thumbprint, ca_file) {
            (Some(thumbprint), _) => ("Thumbprint", Trust::Thumbprint(thumbprint)),
            (None, Some(path)) => ("CAFilePath", Trust::CaFile(path)),
            (None, None) => return Ok(if insecure { Trust::Nobody } else { Trust::Public }),
        };
        if insecure {
            return Err(ConfigProblem::InsecureBeside(self.namespace.to_owned(), key));
        }
        Ok(trust)
    }
}

fn optional(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
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
