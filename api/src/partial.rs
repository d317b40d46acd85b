//! Objects that a conversion webhook receives in part.
//!
//! For the fields that each manager owns, the API server removes fields from an object and converts what is left to the
//! versions that the managers used. Such an object may lack its metadata and any other part, and a list or map without
//! its members is null.

use serde_json::{Map, Value};

/// A label and an annotation that only partial objects get. They never reach an object that is stored.
const MARK: &str = "run.tanzu.vmware.com/partial-object";

/// Gives `object` metadata if it has none. The API server refuses a converted object without it, or with a label or annotation that is
/// null. Of an object that needs no conversion, it drops these.
///
/// Metadata without members would become null: the API server takes it for a field that stays, and removes all labels and
/// annotations of the whole object from it. It refuses null, too. So the metadata of a partial object gets a label and an
/// annotation, which keep `labels` and `annotations`.
pub(crate) fn ensure_metadata(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    let Some(metadata) = members(object.entry("metadata").or_insert(Value::Null)) else { return };
    for field in ["labels", "annotations"] {
        if let Some(texts) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            texts.retain(|_, text| !text.is_null());
        }
    }
    if is_whole(metadata) {
        return;
    }
    for field in ["labels", "annotations"] {
        if let Some(texts) =
            members(metadata.entry(field).or_insert(Value::Null)).filter(|texts| texts.is_empty())
        {
            texts.insert(MARK.to_owned(), "".into());
        }
    }
}

/// Returns true for the metadata of an object that can be stored.
fn is_whole(metadata: &Map<String, Value>) -> bool {
    ["name", "generateName"].iter().any(|field| metadata.get(*field).is_some_and(Value::is_string))
}

/// The members of an object. Null becomes an object.
fn members(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
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
