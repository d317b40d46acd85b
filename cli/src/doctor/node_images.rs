//! Checks that gcm can create a release from each node image.

use api::vmop::VirtualMachineImage;
use gcm::release::image::{Unreadable, carried, explain_exclusion, is_node_image};
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

const PROPERTIES: Check = Check::new("LC0603", "the properties of node images can be read");

/// The checks in this file.
pub const ALL: &[Check] = &[PROPERTIES];

/// Runs the check.
pub async fn check(client: &Client) -> Diagnosis {
    let images = Api::<VirtualMachineImage>::all(client.clone()).list(&ListParams::default()).await;
    match PROPERTIES.read("VirtualMachineImages", images) {
        Ok(images) => judge(&images.items),
        Err(unread) => unread,
    }
}

/// Warns about unreadable images, and lists excluded images. An exclusion isn't a problem: the administrator chose the
/// exclusion for the library, or a user published the image.
fn judge(images: &[VirtualMachineImage]) -> Diagnosis {
    let nodes: Vec<_> = images.iter().filter(|image| is_node_image(image)).collect();
    let unreadable: Vec<_> =
        nodes.iter().filter_map(|image| carried(image)?.err()).map(|why| why.to_string()).collect();
    if !unreadable.is_empty() {
        return PROPERTIES.warning(unreadable.join("; "), Unreadable::REMEDY);
    }
    let excluded = nodes.iter().filter_map(|image| Some((image.name_any(), explain_exclusion(image)?)));
    let excluded = excluded.map(|(name, why)| format!("{name} provides no release: {why}"));
    let found = std::iter::once(format!("{} node images", nodes.len())).chain(excluded);
    PROPERTIES.ok(found.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use api::names::label;
    use gcm::release::image::DISTRIBUTION;
    use kit::diagnosis::CheckOutcome;

    use super::*;

    fn image(name: &str, distribution: &str) -> VirtualMachineImage {
        let mut image = VirtualMachineImage::default();
        image.metadata.name = Some(name.to_owned());
        image.annotations_mut().insert(DISTRIBUTION.to_owned(), distribution.to_owned());
        image
    }

    #[test]
    fn a_node_image_that_cannot_be_read_is_named_with_its_property() {
        let sound = image("sound", r#"{"distribution": {"version": "v1.33.1+vmware.1"}}"#);
        let mut plain = image("plain", "");
        plain.annotations_mut().clear();
        let mut published = image("published", "{");
        published.labels_mut().insert(label::PUBLISH_REQUEST.to_owned(), "request".to_owned());
        let fine = judge(&[sound.clone(), plain, published]);
        assert_eq!(fine.outcome, CheckOutcome::Ok);
        let expected = "2 node images; published provides no release: \
                        it was published by a VirtualMachinePublishRequest";
        assert_eq!(fine.found, expected);
        let found = judge(&[sound, image("broken", "{")]);
        assert_eq!(found.outcome, CheckOutcome::Warning);
        let expected = format!("VirtualMachineImage broken: property {DISTRIBUTION}: it is not JSON");
        assert!(found.found.starts_with(&expected), "{}", found.found);
    }
}
