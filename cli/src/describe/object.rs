//! Reads conditions from objects of any kind.

use api::conditions::tree::ConditionView;
use kube::core::DynamicObject;
use serde_json::Value;

/// Returns the condition with this type, or `None` if the object doesn't have one.
pub fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    conditions(object).iter().find(|condition| condition["type"] == type_)
}

/// Returns the entries of `status.conditions`. The slice is empty if there are none.
pub fn conditions(object: &DynamicObject) -> &[Value] {
    object.data["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Returns a condition's string field, or an empty string.
pub fn text(condition: &Value, field: &str) -> String {
    condition[field].as_str().unwrap_or_default().to_owned()
}

/// Returns a view of all conditions.
pub fn views(object: &DynamicObject) -> impl Iterator<Item = ConditionView<'_>> {
    conditions(object).iter().map(|condition| {
        let field = |name: &str| condition[name].as_str().unwrap_or_default();
        ConditionView {
            type_: field("type"),
            status: field("status"),
            reason: field("reason"),
            message: field("message"),
            severity: condition["severity"].as_str(),
        }
    })
}
