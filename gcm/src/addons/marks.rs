//! The labels and annotations of a guest's objects that are looked at.

use kit::guest::{Keys, Metadata};

/// On a member: the id of its set.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// On a parent: the kinds of its members.
pub const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// On a parent: the version of the bundle that was applied as a whole; empty for one without.
pub const APPLIED: &str = "run.tanzu.vmware.com/addon-applied";

/// The labels and annotations that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OurMarks;

impl Keys for OurMarks {
    const KEYS: &'static [&'static str] = &[PART_OF, GROUP_KINDS, APPLIED];
}

/// What is known of an object of a guest.
pub type ObjectMetadata = Metadata<OurMarks>;
