//! Reads Secrets: collects their values for the scrubber, and lists name, type, owner, keys and sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::vmop::VirtualMachine;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _};

use super::contents::Contents;
use super::secret_values::SecretValues;
use super::source::{ObjectSource, Pages, answer};
use crate::kube::connection::api_in;

/// The page size. It is small because each Secret can contain 1 MiB.
const PAGE: u32 = 20;

#[derive(Debug, Default)]
pub struct SecretsRead {
    /// The strings to search for.
    pub values: SecretValues,
    /// The number of Secrets and ConfigMaps that were read.
    pub objects: usize,
    /// The table of Secrets as text, by namespace.
    pub tables: BTreeMap<String, String>,
}

/// Reads the Secrets, and the ConfigMaps with VirtualMachine bootstrap data.
pub async fn read(source: &ObjectSource, contents: &mut Contents) -> SecretsRead {
    let mut read = SecretsRead::default();
    for namespace in source.namespaces(true) {
        let api: Api<Secret> = api_in(&source.client, namespace.as_deref());
        let mut pages = Pages::default();
        loop {
            match pages.next(&api, PAGE).await {
                Ok(Some(secrets)) => secrets.iter().for_each(|secret| read.add(secret)),
                Ok(None) => break,
                Err(error) => {
                    contents.miss(
                        "Secrets, whose values were not searched for,",
                        namespace.as_deref(),
                        &error,
                    );
                    break;
                }
            }
        }
    }
    for (namespace, name) in bootstrap_config_maps(source, contents).await {
        let api: Api<ConfigMap> = Api::namespaced(source.client.clone(), &namespace);
        match answer(api.get_opt(&name)).await {
            Ok(found) => found.iter().for_each(|config_map| read.add_config_map(config_map)),
            Err(error) => contents.miss(&format!("ConfigMap {name}"), Some(&namespace), &error),
        }
    }
    read
}

impl SecretsRead {
    fn add(&mut self, secret: &Secret) {
        self.objects += 1;
        let namespace = secret.namespace().unwrap_or_default();
        let name = secret.name_any();
        let labels: Vec<_> = secret.labels().values().map(String::as_str).collect();
        let public = [vec![namespace.as_str(), name.as_str()], labels].concat();
        for value in secret.data.iter().flat_map(BTreeMap::values) {
            self.values.add(&value.0, &public);
        }
        let keys = secret.data.iter().flatten().map(|(key, value)| format!("{key} ({})", value.0.len()));
        let keys = keys.collect::<Vec<_>>().join(", ");
        let owners = secret.owner_references().iter().map(|owner| format!("{}/{}", owner.kind, owner.name));
        let owners = owners.collect::<Vec<_>>().join(",");
        let type_ = secret.type_.as_deref().unwrap_or("Opaque");
        let created = secret.creation_timestamp().map(|time| time.0.to_string()).unwrap_or_default();
        let table = self
            .tables
            .entry(namespace)
            .or_insert_with(|| "NAME   TYPE   CREATED   OWNER   KEYS (BYTES)\n".to_owned());
        let _ = writeln!(table, "{name}   {type_}   {created}   {}   {}", or_dash(&owners), or_dash(&keys));
    }

    fn add_config_map(&mut self, config_map: &ConfigMap) {
        self.objects += 1;
        let (namespace, name) = (config_map.namespace().unwrap_or_default(), config_map.name_any());
        let public = [namespace.as_str(), name.as_str()];
        let texts = config_map.data.iter().flat_map(BTreeMap::values).map(String::as_bytes);
        let binary = config_map.binary_data.iter().flat_map(BTreeMap::values).map(|value| value.0.as_slice());
        for value in texts.chain(binary) {
            self.values.add(value, &public);
        }
    }
}

/// Returns the namespace and name of each ConfigMap that provides VirtualMachine bootstrap data.
async fn bootstrap_config_maps(source: &ObjectSource, contents: &mut Contents) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for namespace in source.namespaces(false) {
        let api: Api<VirtualMachine> = api_in(&source.client, namespace.as_deref());
        let mut pages = Pages::default();
        loop {
            match pages.next(&api, 200).await {
                Ok(Some(vms)) => found.extend(vms.iter().filter_map(|vm| {
                    let name = vm.spec.vm_metadata.as_ref()?.config_map_name.clone()?;
                    Some((vm.namespace().unwrap_or_default(), name))
                })),
                Ok(None) => break,
                Err(error) => {
                    contents.miss("bootstrap ConfigMaps of VirtualMachines", namespace.as_deref(), &error);
                    break;
                }
            }
        }
    }
    found
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
