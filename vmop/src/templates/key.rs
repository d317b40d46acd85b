//! The key of a golden template, and the name derived from it.

use vsphere::MoRef;

use crate::vcenter::{LONGEST_NAME, Placement};

/// A template's content and location.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateKey {
    /// The VirtualMachineImage's name.
    pub image: String,
    /// The library item's id.
    pub item: String,
    /// The item's content version.
    pub content: String,
    /// The folder and resource pool.
    pub placement: Placement,
    /// The datastore. `None` lets vCenter choose.
    pub datastore: Option<MoRef>,
    /// The id of the storage policy for the template's disks.
    pub policy: Option<String>,
}

impl TemplateKey {
    /// Returns the template's name: the image name and a hash of the content, datastore, stack and policy.
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
