//! Property collector filters, which select the objects and properties to watch or read.

use crate::{MoRef, Object, Value};

pub(crate) fn property_spec(kind: &str, paths: &[&str]) -> Object {
    Object::new("PropertySpec").with("type", kind).with("pathSet", paths.to_vec())
}

/// Builds a traversal from each object of type `kind` to the objects in that object's property `path`. `then` lists the
/// traversals that continue from there.
pub(crate) fn traversal(kind: &str, path: &str, then: Vec<Object>) -> Object {
    Object::new("TraversalSpec")
        .with("type", kind)
        .with("path", path)
        .with("skip", false)
        .with_list("selectSet", then)
}

/// Selects `obj` and the objects that the traversals in `select` reach from there. `skip` excludes `obj` itself from
/// the result.
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
