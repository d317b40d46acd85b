//! Checks the content libraries, and that their items can be deployed.

use std::collections::BTreeMap;

use api::vmop::{ContentLibraryProvider, VirtualMachineImage};
use kit::diagnosis::Diagnosis;
use kube::ResourceExt;
use vsphere::automation::LibraryItem;

use super::checks::{ITEMS, LIBRARY};
use super::site::{ConnectedSite, list_all};
use crate::image::libraries::library_of;

pub async fn check(site: &ConnectedSite<'_>) -> Vec<Diagnosis> {
    let mut named = BTreeMap::new();
    if let Some(id) = &site.settings.library {
        named.insert(id.clone(), "ContentSource of the provider configuration".to_owned());
    }
    let providers =
        match LIBRARY.read("ContentLibraryProviders", list_all::<ContentLibraryProvider>(site.kube).await) {
            Ok(providers) => providers,
            Err(unread) => return vec![unread],
        };
    for provider in providers {
        let id = library_of(&provider).to_owned();
        named.entry(id).or_insert_with(|| format!("ContentLibraryProvider {}", provider.name_any()));
    }
    if named.is_empty() {
        let remedy = "Set ContentSource in the provider configuration to the id of a content library (govc library.info)";
        return vec![LIBRARY.error("no content library is configured, so there are no images", remedy)];
    }
    let (mut found, mut empty, mut images) = (Vec::new(), Vec::new(), false);
    for (id, user) in &named {
        match site.vcenter.library(id).await {
            Ok(library) => {
                found.push(LIBRARY.ok(format!("{} ({id}), named by {user}", library.name)));
                match items(site, &library.name, id).await {
                    Some(items) => {
                        images = true;
                        found.extend(items);
                    }
                    None => empty.push(library.name),
                }
            }
            Err(error) => {
                found.push(LIBRARY.error(format!("library {id}, named by {user}: {error}"), error.advice()));
            }
        }
    }
    if !empty.is_empty() && !images {
        let remedy = "Import an OVA of a node image (layercake image import), or synchronise the library";
        found.push(ITEMS.error(format!("library {} has no item of type ovf", empty.join(", ")), remedy));
    }
    found
}

/// Checks a library's items. Returns `None` if the library doesn't contain OVF items, which is normal for a library that only
/// receives published images.
async fn items(site: &ConnectedSite<'_>, library: &str, id: &str) -> Option<Vec<Diagnosis>> {
    let ids = match site.vcenter.list_library_items(id).await {
        Ok(ids) => ids,
        Err(error) => return Some(vec![ITEMS.error(format!("library {library}: {error}"), error.advice())]),
    };
    let mut items = Vec::with_capacity(ids.len());
    for id in &ids {
        match site.vcenter.read_library_item(id).await {
            Ok(item) => items.push(item),
            Err(error) => {
                return Some(vec![ITEMS.error(format!("library {library}: {error}"), error.advice())]);
            }
        }
    }
    let images = list_all::<VirtualMachineImage>(site.kube).await;
    match ITEMS.read("VirtualMachineImages", images) {
        Ok(images) => {
            let known: Vec<_> = images.iter().map(ResourceExt::name_any).collect();
            judge_items(library, &items, &known)
        }
        Err(unread) => Some(vec![unread]),
    }
}

fn judge_items(library: &str, items: &[LibraryItem], known: &[String]) -> Option<Vec<Diagnosis>> {
    let ovf: Vec<_> = items.iter().filter(|item| item.kind == "ovf").collect();
    if ovf.is_empty() {
        return None;
    }
    let absent: Vec<_> = ovf.iter().filter(|item| !item.cached).map(|item| item.name.as_str()).collect();
    let mut found = Vec::new();
    if !absent.is_empty() {
        let remedy = "Synchronise the library (govc library.sync); otherwise the first VM triggers the download and waits for it";
        found.push(ITEMS.warning(
            format!("library {library}: the files of {} are not downloaded", absent.join(", ")),
            remedy,
        ));
    }
    if !ovf
        .iter()
        .any(|item| known.iter().any(|name| *name == item.name.to_lowercase() || *name == item.name))
    {
        let remedy = "Check the log of the VM operator and the conditions of the VirtualMachineImages";
        found.push(ITEMS.warning(format!("no item of library {library} is a VirtualMachineImage"), remedy));
    }
    if found.is_empty() {
        found.push(ITEMS.ok(format!("library {library}: {} item(s)", ovf.len())));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use kit::diagnosis::CheckOutcome;

    use super::*;

    #[test]
    fn items_are_judged_by_type_and_by_what_is_here() {
        let item = |kind: &str, cached: bool| -> LibraryItem {
            let item = serde_json::json!({ "id": "i", "name": "photon", "type": kind, "cached": cached });
            serde_json::from_value(item).unwrap()
        };
        let known = ["photon".to_owned()];
        let cases = [
            (vec![item("ovf", true)], &known[..], CheckOutcome::Ok, "1 item"),
            (vec![item("ovf", false)], &known[..], CheckOutcome::Warning, "photon are not downloaded"),
            (vec![item("ovf", true)], &[], CheckOutcome::Warning, "no item of library"),
        ];
        for (items, known, outcome, text) in cases {
            let found = judge_items("lib", &items, known).unwrap();
            assert_eq!(found[0].outcome, outcome, "{found:?}");
            assert!(found[0].found.contains(text), "{found:?}");
        }
        assert_eq!(judge_items("lib", &[item("iso", true)], &known), None);
    }
}
