//! What the guest of a machine is told.

use std::collections::BTreeMap;

use api::conditions::vmop as reason;
use api::vmop::{TRANSPORT_EXTRA_CONFIG, VirtualMachine};

use super::{Need, Unmet};

/// The keys that cloud-init reads. All are always written: a template's own must not shine through.
pub const GUESTINFO: [&str; 6] = [
    "guestinfo.metadata",
    "guestinfo.metadata.encoding",
    "guestinfo.userdata",
    "guestinfo.userdata.encoding",
    "guestinfo.vendordata",
    "guestinfo.vendordata.encoding",
];
/// A guest can't read longer values.
const LONGEST_VALUE: usize = 64 * 1024;

/// What the guest is told: ExtraConfig keys and values. Never printed: it holds the cluster's keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bootstrap(pub BTreeMap<String, String>);

impl std::fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where the guest's data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Nowhere: the guest is told nothing.
    None,
    /// In a Secret.
    Secret(&'a str),
    /// In a ConfigMap.
    ConfigMap(&'a str),
}

/// Where the guest's data is kept, as the spec says.
pub fn source(vm: &VirtualMachine) -> Need<Source<'_>> {
    let invalid = |message: String| Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message);
    let Some(metadata) = &vm.spec.vm_metadata else { return Ok(Source::None) };
    let named = |name: &'_ Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    let source = match (named(&metadata.secret_name), named(&metadata.config_map_name)) {
        (true, true) => {
            return Err(invalid("spec.vmMetadata names a Secret and a ConfigMap. Name one of them".into()));
        }
        (true, false) => Source::Secret(metadata.secret_name.as_deref().unwrap_or_default()),
        (false, true) => Source::ConfigMap(metadata.config_map_name.as_deref().unwrap_or_default()),
        (false, false) => return Ok(Source::None),
    };
    match metadata.transport.as_deref() {
        None | Some("" | TRANSPORT_EXTRA_CONFIG) => Ok(source),
        Some(other) => {
            Err(invalid(format!("spec.vmMetadata.transport {other} is not supported. Use ExtraConfig")))
        }
    }
}

/// The guest's data out of a Secret or ConfigMap: only keys of guestinfo, none too long to be read.
pub fn bootstrap(source: &str, data: impl IntoIterator<Item = (String, Vec<u8>)>) -> Need<Bootstrap> {
    let invalid = |message: String| Unmet::wrong(reason::BOOTSTRAP_NOT_READY, message);
    let mut values = BTreeMap::new();
    for (key, value) in data.into_iter().filter(|(key, _)| key.starts_with("guestinfo.")) {
        if value.len() > LONGEST_VALUE {
            return Err(invalid(format!(
                "{source}: {key} has {} bytes, and a guest reads at most {LONGEST_VALUE}. Make it smaller, or compress it",
                value.len()
            )));
        }
        let text = String::from_utf8(value).map_err(|_| {
            invalid(format!(
                "{source}: {key} is not text. Encode it, and name the encoding in {key}.encoding"
            ))
        })?;
        values.insert(key, text);
    }
    if values.is_empty() {
        return Err(invalid(format!("{source} has no key that begins with guestinfo. Add the guest's data")));
    }
    Ok(Bootstrap(values))
}
