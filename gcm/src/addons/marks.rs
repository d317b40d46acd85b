//! The labels and annotations that gcm reads from objects in workload clusters.

use kit::guest::{Keys, Metadata};

/// The label of a member that contains the set id. [`super::apply_set`] explains members and parents.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// The annotation of a parent that lists the members' kinds.
pub const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The annotation of a parent that contains the bundle version that was last applied completely. It is empty for a bundle without
/// a version.
pub const APPLIED: &str = "run.tanzu.vmware.com/addon-applied";

/// Selects the labels and annotations that are kept when metadata is parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OurMarks;

impl Keys for OurMarks {
    const KEYS: &'static [&'static str] = &[PART_OF, GROUP_KINDS, APPLIED];
}

/// The metadata that gcm keeps from an object in a workload cluster.
pub type ObjectMetadata = Metadata<OurMarks>;
