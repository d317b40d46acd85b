//! Converts storage policy IDs into profile specs.

use crate::Object;

pub(super) fn profiles(ids: Vec<String>) -> Vec<Object> {
    ids.into_iter().map(|id| Object::new("VirtualMachineDefinedProfileSpec").with("profileId", id)).collect()
}
