//! The user's data for the guest, as stored in a Secret or ConfigMap.

use std::collections::BTreeMap;
use std::fmt;

use api::conditions::vmop as reason;
use api::names::annotation;
use api::vmop::VirtualMachine;
use bounds::Confidential;
use kit::bounded::{Budget, Exceeded};
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::unmet::{Need, Unmet};

/// The Secret or ConfigMap that contains the guest's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserDataSource<'a> {
    /// The spec names neither a Secret nor a ConfigMap.
    None,
    /// The Secret with this name.
    Secret(&'a str),
    /// The ConfigMap with this name.
    ConfigMap(&'a str),
}

/// The transport by which the guest gets its bootstrap data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The default: the guest only gets its name and addresses.
    #[default]
    None,
    /// Guestinfo keys, copied unchanged.
    ExtraConfig,
    /// Cloud-init through guestinfo.
    CloudInit,
    /// Cloud-init through vCenter's guest customization.
    CloudinitPrep,
    /// OVF properties, and guest customization for the name and addresses.
    OvfEnv,
    /// OVF properties.
    VAppConfig,
    /// A Windows answer file and OVF properties.
    Sysprep,
}

/// The user's data for the guest. `Debug` omits the values, because they contain cluster keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserData {
    pub transport: Transport,
    /// True if vCenter's guest customization is disabled.
    pub uncustomised: bool,
    /// A cloud-init instance ID that replaces the VM's own.
    pub instance_id: Option<String>,
    /// A description of the Secret or ConfigMap for messages; empty without one.
    pub source: String,
    /// The contents of the Secret or ConfigMap.
    pub data: BTreeMap<String, Confidential<Vec<u8>>>,
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserData")
            .field("transport", &self.transport)
            .field("source", &self.source)
            .field("keys", &self.data.keys())
            .finish_non_exhaustive()
    }
}

/// Returns the Secret or ConfigMap that the spec names for the guest's data.
pub fn find_data_source(vm: &VirtualMachine) -> Need<UserDataSource<'_>> {
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(UserDataSource::None) };
    let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    match (named(&metadata.secret_name), named(&metadata.config_map_name)) {
        (true, true) => Err(invalid(
            "spec.vmMetadata names both a Secret and a ConfigMap. Keep only one of them".to_owned(),
        )),
        (true, false) => Ok(UserDataSource::Secret(metadata.secret_name.as_deref().unwrap_or_default())),
        (false, true) => {
            Ok(UserDataSource::ConfigMap(metadata.config_map_name.as_deref().unwrap_or_default()))
        }
        (false, false) => Ok(UserDataSource::None),
    }
}

/// Returns the transport from the spec and annotations. The default for data without a transport is ExtraConfig.
pub fn resolve_transport(vm: &VirtualMachine) -> Need<Transport> {
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(Transport::None) };
    let prep = vm.annotations().get(annotation::CLOUDINIT_TYPE).is_some_and(|kind| kind == "cloudinitprep");
    Ok(match metadata.transport.as_deref().unwrap_or_default() {
        "" if find_data_source(vm)? == UserDataSource::None => Transport::None,
        "" | "ExtraConfig" => Transport::ExtraConfig,
        "CloudInit" if prep => Transport::CloudinitPrep,
        "CloudInit" => Transport::CloudInit,
        "OvfEnv" => Transport::OvfEnv,
        "vAppConfig" => Transport::VAppConfig,
        "Sysprep" => Transport::Sysprep,
        other => {
            let known = "ExtraConfig, CloudInit, OvfEnv, vAppConfig or Sysprep";
            return Err(invalid(format!("spec.vmMetadata.transport {other} is not supported. Use {known}")));
        }
    })
}

/// Combines the data with the user's settings from `vm`. `source` describes the object that contains the data, for messages.
pub fn user_data(vm: &VirtualMachine, source: String, data: BTreeMap<String, Vec<u8>>) -> Need<UserData> {
    let data = data.into_iter().map(|(key, value)| (key, Confidential::new(value))).collect();
    let annotated = |key: &str| vm.annotations().get(key).filter(|value| !value.is_empty());
    Ok(UserData {
        transport: resolve_transport(vm)?,
        uncustomised: annotated(annotation::VSPHERE_CUSTOMIZATION).is_some_and(|value| value == "disable"),
        instance_id: annotated(annotation::CLOUD_INIT_INSTANCE_ID).cloned(),
        source,
        data,
    })
}

impl UserData {
    /// Returns a hash of the user's data and settings. The hash is useless without the `salt`, which is the VM's BIOS UUID.
    pub fn hash(&self, salt: uuid::Uuid) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update(bytes.len().to_be_bytes());
            hash.update(bytes);
        };
        part(salt.as_bytes());
        part(format!("{:?} {} {:?}", self.transport, self.uncustomised, self.instance_id).as_bytes());
        for (key, value) in &self.data {
            part(key.as_bytes());
            part(value.expose());
        }
        api::names::hex(&hash.finalize()[..8])
    }

    /// Returns a key's value as a UTF-8 string, or `None` if the value is missing or empty.
    pub(super) fn text(&self, key: &str, budget: &Budget) -> Composed<Option<Confidential<String>>> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let text = std::str::from_utf8(value);
        let text = text.map_err(|_| self.wrong(key, "is not text. Encode it"))?;
        budget.spend(text.len()).map_err(|exceeded| self.exceeded(key, exceeded))?;
        Ok(Some(Confidential::new(text.to_owned())))
    }

    /// Returns a key's value as a UTF-8 string, decoded if it is gzip, base64, or gzip in base64. Returns `None` if the value
    /// is missing or empty.
    pub(super) fn plain(&self, key: &str, budget: &Budget) -> Composed<Option<Confidential<String>>> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let plain = cloudinit::unpacked(value, budget).map_err(|error| self.refused(key, &error))?;
        let plain = String::from_utf8(plain).map_err(|_| {
            self.wrong(key, "is not text: neither plain, nor in base64, nor in gzip. Correct it")
        })?;
        Ok(Some(Confidential::new(plain)))
    }

    /// Returns a key's value if it isn't empty.
    fn given(&self, key: &str) -> Option<&[u8]> {
        let value = self.data.get(key)?.expose();
        (!value.is_empty()).then_some(value)
    }

    /// Returns the error for a value that can't be read.
    pub(super) fn refused(&self, key: &str, error: &cloudinit::Error) -> Uncomposed {
        match error {
            cloudinit::Error::Exceeded(exceeded) => self.exceeded(key, *exceeded),
            error => self.wrong(key, &format!("{error}. Correct it")).into(),
        }
    }

    /// Returns the error for a key that exceeds a limit.
    pub(super) fn exceeded(&self, key: &str, exceeded: Exceeded) -> Uncomposed {
        match exceeded {
            Exceeded::Bytes { limit } => self.wrong(key, &needs_more_than(limit)).into(),
            Exceeded::Time => exceeded.into(),
        }
    }

    /// Returns the error for a key with a wrong value.
    pub(super) fn wrong(&self, key: &str, what: &str) -> Unmet {
        invalid(format!("{}: {key} {what}", self.source))
    }
}

fn needs_more_than(limit: usize) -> String {
    format!(
        "needs more than {} MiB, together with the keys before it, after it is unpacked and its templates are rendered. Make it smaller",
        limit >> 20
    )
}

/// The reasons why bootstrap data can't be composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncomposed {
    /// The user must change something.
    Unmet(Unmet),
    /// Composing would exceed the limits on bytes or time.
    Exceeded(Exceeded),
}

impl From<Unmet> for Uncomposed {
    fn from(unmet: Unmet) -> Self {
        Self::Unmet(unmet)
    }
}

impl From<Exceeded> for Uncomposed {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

impl Uncomposed {
    /// Converts the error for the VM's condition. `source` describes the object that contains the data.
    pub fn into_unmet(self, source: &str) -> Unmet {
        match self {
            Self::Unmet(unmet) => unmet,
            Self::Exceeded(Exceeded::Bytes { limit }) => {
                invalid(format!("{source} {}", needs_more_than(limit)))
            }
            // A retry may find the processors less busy.
            Self::Exceeded(Exceeded::Time) => Unmet {
                unwatched: true,
                ..invalid(format!(
                    "{source} takes too long to unpack and render. VM Operator tries again later; if this persists, make it smaller"
                ))
            },
        }
    }
}

/// A part of the bootstrap data, or the reason why it can't be composed.
pub type Composed<T> = Result<T, Uncomposed>;

/// Returns an error about the guest's data that the user must correct.
pub(super) fn invalid(message: String) -> Unmet {
    Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)
}
