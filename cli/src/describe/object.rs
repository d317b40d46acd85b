//! Reading conditions out of objects of any kind.

use kube::core::DynamicObject;
use serde_json::Value;

/// A condition of an object, by its type.
pub fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    conditions(object).iter().find(|condition| condition["type"] == type_)
}

/// All conditions of an object.
pub fn conditions(object: &DynamicObject) -> &[Value] {
    object.data["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice)
}

/// A field of a condition; empty if it has none.
pub fn text(condition: &Value, field: &str) -> String {
    condition[field].as_str().unwrap_or_default().to_owned()
}
