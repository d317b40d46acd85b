//! What the user gives the guest, as it lies in a Secret or ConfigMap.

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

/// Where the guest's data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Nowhere.
    None,
    /// In a Secret.
    Secret(&'a str),
    /// In a ConfigMap.
    ConfigMap(&'a str),
}

/// The transport of the bootstrap data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// None is named: the guest gets its name and addresses, no more.
    #[default]
    None,
    /// The keys of guestinfo, as they are.
    ExtraConfig,
    /// Cloud-init, which reads guestinfo.
    CloudInit,
    /// Cloud-init, by vCenter's guest customization.
    CloudinitPrep,
    /// OVF properties, and the guest is given its name and addresses.
    OvfEnv,
    /// OVF properties.
    VAppConfig,
    /// Windows' answer file, and OVF properties.
    Sysprep,
}

/// What the user gives the guest. `Debug` prints only keys: it holds the cluster's keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserData {
    /// By which way.
    pub transport: Transport,
    /// Whether vCenter's guest customization is kept away from the guest.
    pub uncustomised: bool,
    /// Another instance-id than the VM's own, for cloud-init.
    pub instance_id: Option<String>,
    /// The Secret or ConfigMap, for people.
    pub source: String,
    /// What lies there.
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

/// Where the guest's data is kept, as the spec says.
pub fn source(vm: &VirtualMachine) -> Need<Source<'_>> {
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(Source::None) };
    let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    match (named(&metadata.secret_name), named(&metadata.config_map_name)) {
        (true, true) => Err(invalid(
            "spec.vmMetadata names both a Secret and a ConfigMap. Keep only one of them".to_owned(),
        )),
        (true, false) => Ok(Source::Secret(metadata.secret_name.as_deref().unwrap_or_default())),
        (false, true) => Ok(Source::ConfigMap(metadata.config_map_name.as_deref().unwrap_or_default())),
        (false, false) => Ok(Source::None),
    }
}

/// The transport that spec and annotations name. Data without one goes by ExtraConfig.
pub fn transport(vm: &VirtualMachine) -> Need<Transport> {
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(Transport::None) };
    let prep = vm.annotations().get(annotation::CLOUDINIT_TYPE).is_some_and(|kind| kind == "cloudinitprep");
    Ok(match metadata.transport.as_deref().unwrap_or_default() {
        "" if source(vm)? == Source::None => Transport::None,
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

/// What the user of `vm` gives with this data.
pub fn user_data(vm: &VirtualMachine, source: String, data: BTreeMap<String, Vec<u8>>) -> Need<UserData> {
    let data = data.into_iter().map(|(key, value)| (key, Confidential::new(value))).collect();
    let annotated = |key: &str| vm.annotations().get(key).filter(|value| !value.is_empty());
    Ok(UserData {
        transport: transport(vm)?,
        uncustomised: annotated(annotation::VSPHERE_CUSTOMIZATION).is_some_and(|value| value == "disable"),
        instance_id: annotated(annotation::CLOUD_INIT_INSTANCE_ID).cloned(),
        source,
        data,
    })
}

impl UserData {
    /// Stands for everything that the user gave, and for nothing else; of no use without the VM's UUID.
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

    /// The value of a key, as text.
    pub(super) fn text(&self, key: &str, budget: &Budget) -> Composed<Option<Confidential<String>>> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let text = std::str::from_utf8(value);
        let text = text.map_err(|_| self.wrong(key, "is not text. Encode it"))?;
        budget.spend(text.len()).map_err(|exceeded| self.exceeded(key, exceeded))?;
        Ok(Some(Confidential::new(text.to_owned())))
    }

    /// The value of a key in plain: unpacked where it is base64 or gzip in base64.
    pub(super) fn plain(&self, key: &str, budget: &Budget) -> Composed<Option<Confidential<String>>> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let plain = cloudinit::unpacked(value, budget).map_err(|error| self.refused(key, &error))?;
        let plain = String::from_utf8(plain).map_err(|_| {
            self.wrong(key, "is not text: neither plain, nor in base64, nor in gzip. Correct it")
        })?;
        Ok(Some(Confidential::new(plain)))
    }

    /// The value of a key that is not empty.
    fn given(&self, key: &str) -> Option<&[u8]> {
        let value = self.data.get(key)?.expose();
        (!value.is_empty()).then_some(value)
    }

    /// Why the value of a key can't be read.
    pub(super) fn refused(&self, key: &str, error: &cloudinit::Error) -> Uncomposed {
        match error {
            cloudinit::Error::Exceeded(exceeded) => self.exceeded(key, *exceeded),
            error => self.wrong(key, &format!("{error}. Correct it")).into(),
        }
    }

    /// What a key needs more of than there is.
    pub(super) fn exceeded(&self, key: &str, exceeded: Exceeded) -> Uncomposed {
        match exceeded {
            Exceeded::Bytes { limit } => self.wrong(key, &needs_more_than(limit)).into(),
            Exceeded::Time => exceeded.into(),
        }
    }

    /// What is wrong with a key.
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

/// Why bootstrap data is not composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncomposed {
    /// Somebody must change something.
    Unmet(Unmet),
    /// It needs more bytes or time than it may use.
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
    /// The same for the VM's condition, of data that lies in `source`.
    pub fn into_unmet(self, source: &str) -> Unmet {
        match self {
            Self::Unmet(unmet) => unmet,
            Self::Exceeded(Exceeded::Bytes { limit }) => {
                invalid(format!("{source} {}", needs_more_than(limit)))
            }
            // Another try may find the processors less busy.
            Self::Exceeded(Exceeded::Time) => Unmet {
                unwatched: true,
                ..invalid(format!(
                    "{source} takes too long to unpack and render. VM Operator tries again later; if this persists, make it smaller"
                ))
            },
        }
    }
}

/// A part of the bootstrap data, or why it is not composed.
pub type Composed<T> = Result<T, Uncomposed>;

/// Something about the guest's data that somebody must mend.
pub(super) fn invalid(message: String) -> Unmet {
    Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message)
}
