//! The VirtualMachineImage that an item of the library becomes.

use std::collections::BTreeMap;

use api::conditions::{Condition, ERROR, vmop as known};
use api::vmop::{
    ContentLibraryReference, ContentProviderReference, VirtualMachineImage, VirtualMachineImageOSInfo,
    VirtualMachineImageProductInfo, VirtualMachineImageSpec, VirtualMachineImageStatus,
};
use kube::api::ObjectMeta;
use vsphere::automation::LibraryItem;

use super::descriptor::Descriptor;

/// Label of the images that we made: the library they come from.
pub const LIBRARY_LABEL: &str = "vmoperator.vmware.com/content-library";
/// Kind of the reference to the library, as vm-operator names it.
const PROVIDER_KIND: &str = "ContentLibraryProvider";
/// OVF properties with this prefix are the release's own data; they become annotations.
const SYSTEM_PREFIX: &str = "vmware-system.";
/// The API server takes at most 256 KiB of annotations; the rest of the object needs room too.
const ANNOTATIONS: usize = 200 * 1024;

/// The image's object, without status.
pub fn image(name: &str, item: &LibraryItem, descriptor: &Descriptor) -> VirtualMachineImage {
    let [product, vendor, version, full_version] = descriptor.product.clone();
    let configurable = descriptor.properties.iter().filter(|(_, property)| property.configurable);
    let spec = VirtualMachineImageSpec {
        type_: item.kind.to_ascii_uppercase(),
        image_source_type: Some("Content Library".to_owned()),
        image_id: item.id.clone(),
        provider_ref: ContentProviderReference {
            api_version: Some("vmoperator.vmware.com/v1alpha1".to_owned()),
            kind: PROVIDER_KIND.to_owned(),
            name: item.library_id.clone(),
            namespace: None,
        },
        product_info: Some(VirtualMachineImageProductInfo { product, vendor, version, full_version }),
        os_info: Some(VirtualMachineImageOSInfo {
            version: descriptor.os_version.clone(),
            type_: descriptor.os_type.clone(),
        }),
        ovf_env: configurable.map(|(key, property)| (key.clone(), property.shown.clone())).collect(),
        hw_version: descriptor.hardware,
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(LIBRARY_LABEL.to_owned(), item.library_id.clone())])),
        annotations: Some(annotations(descriptor)),
        ..ObjectMeta::default()
    };
    VirtualMachineImage { metadata, spec, status: None }
}

fn annotations(descriptor: &Descriptor) -> BTreeMap<String, String> {
    let system =
        descriptor.properties.iter().filter(|(key, _)| key.starts_with(SYSTEM_PREFIX) && key.len() <= 63);
    let mut room = ANNOTATIONS;
    let mut kept = BTreeMap::new();
    for (key, property) in system {
        let value = property.shown.default.clone().unwrap_or_default();
        if let Some(left) = room.checked_sub(key.len() + value.len()) {
            room = left;
            kept.insert(key.clone(), value);
        }
    }
    kept
}

/// The image's status: read well, or why not.
pub fn status(
    item: &LibraryItem,
    descriptor: Result<&Descriptor, &str>,
    old: &VirtualMachineImageStatus,
) -> VirtualMachineImageStatus {
    let mut conditions = vec![Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY)];
    match descriptor {
        Ok(descriptor) => {
            conditions.push(Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_SYNCED));
            conditions.push(os_supported(descriptor));
        }
        Err(why) => conditions.push(Condition::is_false(
            known::VIRTUAL_MACHINE_IMAGE_SYNCED,
            ERROR,
            known::VIRTUAL_MACHINE_IMAGE_NOT_SYNCED,
            format!("The item {} can't be read: {why}", item.name),
        )),
    }
    let supported = conditions.iter().all(|condition| condition.status == api::conditions::TRUE);
    VirtualMachineImageStatus {
        uuid: None,
        internal_id: Some(item.name.clone()),
        power_state: None,
        image_name: Some(item.name.clone()),
        image_supported: Some(supported),
        conditions,
        content_library_ref: Some(ContentLibraryReference {
            api_group: Some("vmoperator.vmware.com".to_owned()),
            kind: PROVIDER_KIND.to_owned(),
            name: item.library_id.clone(),
        }),
        // What could not be read is read again next time, version or not.
        content_version: descriptor
            .map_or_else(|_| old.content_version.clone(), |_| Some(item.content_version.clone())),
        firmware: descriptor.ok().and_then(|descriptor| descriptor.firmware.clone()),
    }
}

fn os_supported(descriptor: &Descriptor) -> Condition {
    let windows = descriptor.os_type.as_deref().is_some_and(|os| os.to_ascii_lowercase().starts_with("win"));
    if windows {
        return Condition::is_false(
            known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED,
            ERROR,
            known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_NOT_SUPPORTED,
            "Windows guests are not supported. Use a Linux image",
        );
    }
    Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED)
}

/// Whether the image shows this content of the item already.
pub fn current(image: &VirtualMachineImage, item: &LibraryItem) -> bool {
    let status = image.status.clone().unwrap_or_default();
    image.spec.image_id == item.id
        && status.content_version.as_deref() == Some(item.content_version.as_str())
        && api::conditions::holds(&status.conditions, known::VIRTUAL_MACHINE_IMAGE_SYNCED)
}

/// The object's name: the item's, as far as the API server takes it.
pub fn name(item: &LibraryItem) -> Option<String> {
    let lower = item.name.to_ascii_lowercase();
    let safe: String = lower
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .take(253)
        .collect();
    let ends = |c: char| !c.is_ascii_alphanumeric();
    let labels: Vec<_> =
        safe.split('.').map(|label| label.trim_matches(ends)).filter(|label| !label.is_empty()).collect();
    Some(labels.join(".")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> LibraryItem {
        LibraryItem {
            id: "item-1".into(),
            library_id: "lib-1".into(),
            name: name.into(),
            description: String::new(),
            kind: "ovf".into(),
            version: "1".into(),
            content_version: "2".into(),
            size: 1,
            created: None,
            cached: true,
        }
    }

    #[test]
    fn names_are_those_of_the_items() {
        for (given, made) in [
            (
                "ob-16545581-photon-3-k8s-v1.16.12---vmware.1-tkg.1.da7afe7",
                Some("ob-16545581-photon-3-k8s-v1.16.12---vmware.1-tkg.1.da7afe7"),
            ),
            ("Photon 3 (v1.17.4+vmware.1)", Some("photon-3--v1.17.4-vmware.1")),
            ("..-a-.", Some("a")),
            ("???", None),
        ] {
            assert_eq!(name(&item(given)).as_deref(), made, "{given}");
        }
    }

    #[test]
    fn an_item_that_was_read_is_current_until_its_content_changes() {
        let descriptor = Descriptor::default();
        let mut image = image("a", &item("a"), &descriptor);
        assert!(!current(&image, &item("a")));
        image.status = Some(status(&item("a"), Ok(&descriptor), &VirtualMachineImageStatus::default()));
        assert!(current(&image, &item("a")));
        let newer = LibraryItem { content_version: "3".into(), ..item("a") };
        assert!(!current(&image, &newer));
        image.status = Some(status(&newer, Err("it is broken"), &image.status.clone().unwrap()));
        assert!(!current(&image, &newer), "a broken item is read again");
    }

    #[test]
    fn release_data_becomes_annotations_and_the_rest_stays_out() {
        let xml = r#"<Envelope><ProductSection>
            <Property key="vmware-system.tkr" value="x"/><Property key="secret" value="y"/>
            <Property key="dns" value="z" userConfigurable="true"/></ProductSection></Envelope>"#;
        let image = image("a", &item("a"), &super::super::descriptor::read(xml).unwrap());
        let annotations = image.metadata.annotations.unwrap();
        assert_eq!(annotations.into_iter().collect::<Vec<_>>(), [("vmware-system.tkr".into(), "x".into())]);
        assert_eq!(image.spec.ovf_env.keys().collect::<Vec<_>>(), ["dns"]);
    }
}
