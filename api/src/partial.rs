//! Objects that a conversion webhook receives in part.
//!
//! For the fields that each manager owns, the API server removes fields from an object and converts what is left to the
//! versions that the managers used. Such an object may lack its metadata and any other part, and a list or map without
//! its members is null.

use serde_json::{Map, Value};

/// Gives `object` metadata if it has none. The API server refuses a converted object without it.
pub(crate) fn ensure_metadata(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
}

/// Removes a member of `object` and returns it without nulls. A member that is null counts as missing.
pub(crate) fn take_member(object: &mut Value, key: &str) -> Option<Value> {
    let mut value = object.as_object_mut()?.remove(key)?;
    remove_nulls(&mut value);
    Some(value).filter(|value| !value.is_null())
}

/// Removes all nulls within `value`.
pub(crate) fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}
