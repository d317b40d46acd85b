//! Computes the VirtualMachineImage for a library item.

use std::collections::BTreeMap;

use api::conditions::{Condition, ERROR, WARNING, vmop as known};
use api::names::{image_builder, label};
use api::vmop::{
    ContentLibraryReference, ContentProviderReference, VirtualMachineImage, VirtualMachineImageOSInfo,
    VirtualMachineImageProductInfo, VirtualMachineImageSpec, VirtualMachineImageStatus,
};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use uuid::Uuid;
use vsphere::automation::LibraryItem;

use super::descriptor::{Descriptor, NotOvf};
use super::libraries::{ImageLibrary, PROVIDER_KIND};
use crate::vcenter::mark;

/// The label on images from this controller: their library's UUID.
pub const LIBRARY_LABEL: &str = "vmoperator.vmware.com/content-library";
const OUR_LABELS: [&str; 3] = [LIBRARY_LABEL, label::RELEASE_LIBRARY, label::PUBLISH_REQUEST];
/// The label value for an invalid publish request UID.
const UNKNOWN_REQUEST: &str = "unknown";
/// The prefix of OVF properties that contain release data. They become annotations.
const SYSTEM_PREFIX: &str = "vmware-system.";
/// The prefix of the release data that identifies a Kubernetes node image.
const NODE_PREFIX: &str = "vmware-system.guest.kubernetes";
/// The vSphere guest id prefixes for systems that support neither cloud-init nor guest customization by vCenter.
const UNKNOWN_GUESTS: [&str; 6] = ["darwin", "dos", "netware", "os2", "solaris", "win3"];
/// The API server's limit for names.
const LONGEST_NAME: usize = 253;
/// The limit for annotations, in bytes. The API server allows 256 KiB for annotations, and the object needs space too.
const ANNOTATIONS: usize = 200 * 1024;

/// Returns the image object without its status.
pub fn image(
    name: &str,
    library: &ImageLibrary,
    item: &LibraryItem,
    descriptor: &Descriptor,
) -> VirtualMachineImage {
    let [product, vendor, version, full_version] = descriptor.product.clone();
    let configurable = descriptor.properties.iter().filter(|(_, property)| property.configurable);
    let spec = VirtualMachineImageSpec {
        type_: item.kind.to_ascii_uppercase(),
        image_source_type: Some("Content Library".to_owned()),
        image_id: item.id.clone(),
        provider_ref: ContentProviderReference {
            api_version: Some("vmoperator.vmware.com/v1alpha1".to_owned()),
            kind: PROVIDER_KIND.to_owned(),
            name: library.name().to_owned(),
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
        labels: Some(labels(library, item)),
        annotations: Some(annotations(descriptor)),
        owner_references: library.provider.clone().map(|provider| vec![provider]),
        ..ObjectMeta::default()
    };
    VirtualMachineImage { metadata, spec, status: None }
}

/// Returns the image's labels: its library, whether the library contains releases, and the publish request's UID.
fn labels(library: &ImageLibrary, item: &LibraryItem) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (LIBRARY_LABEL.to_owned(), library.id.clone()),
        (label::RELEASE_LIBRARY.to_owned(), library.releases.to_string()),
    ]);
    if let Some(uid) = mark::publish_request(&item.description) {
        let is_uid = |uid: &str| Uuid::try_parse(uid).is_ok();
        let uid = if is_uid(uid) { uid } else { UNKNOWN_REQUEST };
        labels.insert(label::PUBLISH_REQUEST.to_owned(), uid.to_owned());
    }
    labels
}

/// Returns the merge patch that sets the image's labels and removes this controller's other labels.
pub fn label_patch(library: &ImageLibrary, item: &LibraryItem) -> Value {
    let wanted = labels(library, item);
    let labels: BTreeMap<_, _> = OUR_LABELS.map(|key| (key, wanted.get(key))).into();
    json!({ "metadata": { "labels": labels } })
}

/// Returns true if this controller's labels on the image are correct.
pub fn is_labelled(image: &VirtualMachineImage, library: &ImageLibrary, item: &LibraryItem) -> bool {
    let wanted = labels(library, item);
    OUR_LABELS.iter().all(|key| image.labels().get(*key) == wanted.get(*key))
}

fn annotations(descriptor: &Descriptor) -> BTreeMap<String, String> {
    let of_release = |key: &str| {
        key.starts_with(SYSTEM_PREFIX) && key.len() <= 63 || image_builder::PROPERTIES.contains(&key)
    };
    let system = descriptor.properties.iter().filter(|(key, _)| of_release(key));
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

/// Returns the image's status, from the `descriptor` or the error that prevented its parsing.
pub fn status(
    library: &ImageLibrary,
    item: &LibraryItem,
    descriptor: Result<&Descriptor, &NotOvf>,
    old: &VirtualMachineImageStatus,
) -> VirtualMachineImageStatus {
    let mut conditions = vec![Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY)];
    match descriptor {
        Ok(descriptor) => {
            conditions.push(synced(descriptor));
            conditions.push(os_supported(descriptor));
            conditions.push(compatible(descriptor));
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
            name: library.name().to_owned(),
        }),
        // Keep the old version if the item couldn't be read, so that it is read again.
        content_version: descriptor
            .map_or_else(|_| old.content_version.clone(), |_| Some(item.content_version.clone())),
        firmware: descriptor.ok().and_then(|descriptor| descriptor.firmware.clone()),
    }
}

/// Returns the condition for an item that was read. The message counts OVF properties that don't fit into the image object.
fn synced(descriptor: &Descriptor) -> Condition {
    let message = (descriptor.left_out > 0).then(|| {
        format!(
            "{} OVF properties are omitted because their names are too long or they do not fit into an object. If you need them, shorten them in the image",
            descriptor.left_out
        )
    });
    Condition { message, ..Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_SYNCED) }
}

fn os_supported(descriptor: &Descriptor) -> Condition {
    let os = descriptor.os_type.as_deref().unwrap_or_default();
    if UNKNOWN_GUESTS.iter().any(|family| os.to_ascii_lowercase().starts_with(family)) {
        return Condition::is_false(
            known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED,
            ERROR,
            known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_NOT_SUPPORTED,
            format!(
                "The image's operating system {os} supports neither cloud-init nor vCenter's customization. Use a Linux or Windows image"
            ),
        );
    }
    Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_OS_TYPE_SUPPORTED)
}

/// Returns the v1alpha1 compatibility condition. Node images are compatible, and so are images whose cloud-init can be
/// deferred.
fn compatible(descriptor: &Descriptor) -> Condition {
    let node = descriptor.properties.keys().any(|key| key.starts_with(NODE_PREFIX));
    if node || descriptor.defers {
        return Condition::is_true(known::VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE);
    }
    Condition::is_false(
        known::VIRTUAL_MACHINE_IMAGE_V1ALPHA1_COMPATIBLE,
        WARNING,
        known::VIRTUAL_MACHINE_IMAGE_V1ALPHA1_NOT_COMPATIBLE,
        "VirtualMachineImage is either not a TKG image or is not compatible with VMService v1alpha1: its cloud-init does not wait for VMware Tools. Use transport CloudInit, or another image",
    )
}

/// Returns the status of an image whose library can't be used.
pub fn without_library(old: &VirtualMachineImageStatus, why: &str) -> VirtualMachineImageStatus {
    let type_ = known::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY;
    let gone = Condition::is_false(type_, ERROR, known::VIRTUAL_MACHINE_IMAGE_PROVIDER_NOT_READY, why);
    let others = old.conditions.iter().filter(|condition| condition.type_ != type_).cloned();
    let conditions = [gone].into_iter().chain(others).collect();
    VirtualMachineImageStatus { conditions, image_supported: Some(false), ..old.clone() }
}

/// Returns true if the image is up to date with the item's content, its library and its owner.
pub fn current(image: &VirtualMachineImage, library: &ImageLibrary, item: &LibraryItem) -> bool {
    let status = image.status.clone().unwrap_or_default();
    let holds = |type_| api::conditions::holds(&status.conditions, type_);
    let owned = library.provider.as_ref().is_none_or(|provider| {
        image.metadata.owner_references.iter().flatten().any(|owner| owner.uid == provider.uid)
    });
    image.spec.image_id == item.id
        && image.spec.provider_ref.name == library.name()
        && owned
        && is_labelled(image, library, item)
        && status.content_version.as_deref() == Some(item.content_version.as_str())
        && holds(known::VIRTUAL_MACHINE_IMAGE_SYNCED)
        && holds(known::VIRTUAL_MACHINE_IMAGE_PROVIDER_READY)
}

/// Returns the alternative name for an item whose own name is taken.
pub fn second_name(name: &str, item: &LibraryItem) -> String {
    api::names::joined(name, &format!("-{}", api::names::hash([item.id.as_str()])), LONGEST_NAME)
}

/// Returns the object name for an item: the item's name with unsupported characters replaced, or `None` if the result is empty.
pub fn name(item: &LibraryItem) -> Option<String> {
    let lower = item.name.to_ascii_lowercase();
    let safe: String = lower
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .take(LONGEST_NAME)
        .collect();
    let ends = |c: char| !c.is_ascii_alphanumeric();
    let labels: Vec<_> =
        safe.split('.').map(|label| label.trim_matches(ends)).filter(|label| !label.is_empty()).collect();
    Some(labels.join(".")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use bounds::Budget;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::image::descriptor;
    use crate::testing::fixtures::condition_line;

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

    fn library() -> ImageLibrary {
        ImageLibrary { id: "lib-1".into(), provider: None, releases: true }
    }

    #[test]
    fn names_are_those_of_the_items() {
        let node = "ob-16545581-photon-3-k8s-v1.16.12---vmware.1-tkg.1.da7afe7";
        for (given, made) in [
            (node, Some(node)),
            ("Photon 3 (v1.17.4+vmware.1)", Some("photon-3--v1.17.4-vmware.1")),
            ("..-a-.", Some("a")),
            ("???", None),
        ] {
            assert_eq!(name(&item(given)).as_deref(), made, "{given}");
        }
        let second = second_name(&"x".repeat(253), &item("x"));
        assert!(second.len() <= 253 && second == second_name(&"x".repeat(253), &item("x")), "{second}");
        assert!(second_name("photon", &item("x")).starts_with("photon-"));
    }

    #[test]
    fn an_item_that_was_read_is_current_until_its_content_changes() {
        let descriptor = Descriptor::default();
        let mut image = image("a", &library(), &item("a"), &descriptor);
        let current = |image: &_, item: &_| current(image, &library(), item);
        assert!(!current(&image, &item("a")));
        let old = VirtualMachineImageStatus::default();
        image.status = Some(status(&library(), &item("a"), Ok(&descriptor), &old));
        assert!(current(&image, &item("a")));
        let newer = LibraryItem { content_version: "3".into(), ..item("a") };
        assert!(!current(&image, &newer));
        let read = image.status.clone().unwrap();
        image.status = Some(status(&library(), &newer, Err(&NotOvf::new("it is broken")), &read));
        assert!(!current(&image, &newer), "a broken item is read again");
        image.status = Some(without_library(&read, "it is gone"));
        assert!(!current(&image, &item("a")), "a library that is back is read again");
    }

    #[test]
    fn an_image_says_whether_its_library_is_for_releases_and_who_published_it() {
        let descriptor = Descriptor::default();
        let published = |uid: &str| LibraryItem {
            description: format!("virtualmachinepublishrequest.vmoperator.vmware.com: {uid}\nof mine"),
            ..item("a")
        };
        let uid = "3f0c6a0e-5a51-4d4e-9a5b-2f3f0c6a0e5a";
        let tenants = ImageLibrary { releases: false, ..library() };
        for (library, item, releases, request) in [
            (library(), item("a"), "true", None),
            (tenants.clone(), item("a"), "false", None),
            (library(), published(uid), "true", Some(uid)),
            (library(), published("no uid at all!"), "true", Some("unknown")),
        ] {
            let mut image = image("a", &library, &item, &descriptor);
            let labels = image.labels().clone();
            assert_eq!(labels[label::RELEASE_LIBRARY], releases);
            assert_eq!(labels.get(label::PUBLISH_REQUEST).map(String::as_str), request);
            let old = VirtualMachineImageStatus::default();
            image.status = Some(status(&library, &item, Ok(&descriptor), &old));
            assert!(current(&image, &library, &item));
            let changed = ImageLibrary { releases: !library.releases, ..library.clone() };
            assert!(!current(&image, &changed, &item));
            image.metadata.labels.get_or_insert_default().remove(label::RELEASE_LIBRARY);
            assert!(!current(&image, &library, &item), "a label that was removed is put back");
        }
    }

    #[test]
    fn an_image_is_its_provider_s() {
        let provider = api_reference("team", "u-1");
        let of_team = ImageLibrary { provider: Some(provider.clone()), ..library() };
        let descriptor = Descriptor::default();
        let mut image = image("a", &of_team, &item("a"), &descriptor);
        assert_eq!(image.metadata.owner_references, Some(vec![provider]));
        let named = &image.spec.provider_ref;
        assert_eq!((named.kind.as_str(), named.name.as_str()), (PROVIDER_KIND, "team"));
        let old = VirtualMachineImageStatus::default();
        image.status = Some(status(&of_team, &item("a"), Ok(&descriptor), &old));
        assert!(current(&image, &of_team, &item("a")));
        assert!(!current(&image, &library(), &item("a")));
        let made_anew = ImageLibrary { provider: Some(api_reference("team", "u-2")), ..library() };
        assert!(!current(&image, &made_anew, &item("a")));
    }

    fn api_reference(name: &str, uid: &str) -> OwnerReference {
        let api_version = "vmoperator.vmware.com/v1alpha1".into();
        let (kind, name, uid) = (PROVIDER_KIND.into(), name.into(), uid.into());
        OwnerReference { api_version, kind, name, uid, ..Default::default() }
    }

    #[test]
    fn an_image_says_what_it_is_good_for() {
        let status_of = |xml: &str| {
            let read = descriptor::read(xml, &Budget::new(1 << 20));
            let old = VirtualMachineImageStatus::default();
            let status = status(&library(), &item("a"), read.as_ref(), &old);
            let lines: Vec<_> = status.conditions.iter().map(condition_line).collect();
            format!("{:?}\n{}", status.image_supported, lines.join("\n"))
        };
        let node = r#"<Envelope><OperatingSystemSection osType="vmwarePhoton64Guest"/><ProductSection>
            <Property key="vmware-system.guest.kubernetes.distribution.image.version" value="v"/></ProductSection></Envelope>"#;
        let waits = r#"<Envelope><OperatingSystemSection osType="ubuntu64Guest"/><VirtualHardwareSection>
            <ExtraConfig key="guestinfo.vmservice.defer-cloud-init" value="ready"/></VirtualHardwareSection></Envelope>"#;
        let plain = r#"<Envelope><OperatingSystemSection osType="windows9Server64Guest"/></Envelope>"#;
        let strange = r#"<Envelope><OperatingSystemSection osType="darwin20_64Guest"/></Envelope>"#;
        insta::assert_snapshot!([node, waits, plain, strange, "<x/>"].map(status_of).join("\n\n"));
        let lost = without_library(&VirtualMachineImageStatus::default(), "content library lib-1 is gone");
        assert_eq!(
            condition_line(&lost.conditions[0]),
            "VirtualMachineImageProviderReady | False | Error | VirtualMachineImageProviderNotReady | content library lib-1 is gone"
        );
    }

    #[test]
    fn release_data_becomes_annotations_and_the_rest_stays_out() {
        let xml = r#"<Envelope><ProductSection>
            <Property key="vmware-system.tkr" value="x"/><Property key="secret" value="y"/>
            <Property key="KUBERNETES_SEMVER" value="v1.33.1"/><Property key="BUILD_DATE" value="today"/>
            <Property key="dns" value="z" userConfigurable="true"/></ProductSection></Envelope>"#;
        let descriptor = descriptor::read(xml, &Budget::new(1 << 20)).unwrap();
        let image = image("a", &library(), &item("a"), &descriptor);
        let annotations = image.metadata.annotations.unwrap();
        let kept = [("KUBERNETES_SEMVER", "v1.33.1"), ("vmware-system.tkr", "x")];
        assert_eq!(annotations, kept.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert_eq!(image.spec.ovf_env.keys().collect::<Vec<_>>(), ["dns"]);
    }
}
