//! What a golden template is made of, and its name.

use vsphere::MoRef;

use crate::vcenter::{LONGEST_NAME, Placement};

/// What a template is made of, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateKey {
    /// Name of the VirtualMachineImage.
    pub image: String,
    /// The library item.
    pub item: String,
    /// The version of the item's files.
    pub content: String,
    /// Folder and pool.
    pub placement: Placement,
    /// The datastore; `None` leaves the choice to vCenter.
    pub datastore: Option<MoRef>,
    /// The storage policy of its disks, by id.
    pub policy: Option<String>,
}

impl TemplateKey {
    /// The template's name: the image's, and a suffix that stands for all it is made of.
    pub fn template_name(&self, stack: &str) -> String {
        let datastore = self.datastore.as_ref().map_or("", MoRef::id);
        let policy = self.policy.as_deref();
        let made_of = [self.item.as_str(), &self.content, datastore, stack];
        let suffix = api::names::hash(made_of.into_iter().chain(policy));
        let room = LONGEST_NAME - suffix.len() - 1;
        let mut image = self.image.as_str();
        while image.len() > room {
            image = &image[..image.floor_char_boundary(room)];
        }
        format!("{image}-{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(image: &str, content: &str) -> TemplateKey {
        TemplateKey {
            image: image.into(),
            item: "item".into(),
            content: content.into(),
            placement: Placement { folder: MoRef::folder("group-v9"), pool: MoRef::pool("resgroup-9") },
            datastore: None,
            policy: None,
        }
    }

    #[test]
    fn the_name_stands_for_the_key() {
        let short = key("photon-3", "1").template_name("s");
        assert!(short.starts_with("photon-3-") && short.len() == "photon-3-".len() + 5);
        assert_eq!(short, key("photon-3", "1").template_name("s"));
        assert_ne!(short, key("photon-3", "2").template_name("s"));
        assert_ne!(short, key("photon-3", "1").template_name("t"));
        let long = key(&"x".repeat(200), "1").template_name("s");
        assert_eq!(long.len(), LONGEST_NAME);
    }
}
