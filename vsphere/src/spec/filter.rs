//! What the property collector shall watch or read.

use crate::{MoRef, Object, Value};

pub(crate) fn property_spec(kind: &str, paths: &[&str]) -> Object {
    Object::new("PropertySpec").with("type", kind).with("pathSet", paths.to_vec())
}

/// From every `kind`, go on to what its property `path` refers to.
pub(crate) fn traversal(kind: &str, path: &str, then: Vec<Object>) -> Object {
    Object::new("TraversalSpec")
        .with("type", kind)
        .with("path", path)
        .with("skip", false)
        .with_list("selectSet", then)
}

/// `skip` leaves the object itself out of the result.
pub(crate) fn object_spec(obj: &MoRef, skip: bool, select: Vec<Object>) -> Object {
    Object::new("ObjectSpec").with("obj", obj).with("skip", skip).with_list("selectSet", select)
}

pub(crate) fn filter_spec(properties: Vec<Object>, objects: Vec<Object>, report_missing: bool) -> Value {
    Object::new("PropertyFilterSpec")
        .with("propSet", properties)
        .with("objectSet", objects)
        .with_some("reportMissingObjectsInResults", report_missing.then_some(true))
        .into()
}
