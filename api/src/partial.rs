//! Normalizes partial objects that a conversion webhook receives.
//!
//! To track which manager owns which fields, the API server reduces an object to the fields of one manager, and converts the
//! result to the version that the manager used. Such a partial object can lack its metadata and any other part. An empty list or
//! map in it is null.

use serde_json::{Map, Value};

/// A label and an annotation that only partial objects get. Stored objects never contain them.
const MARK: &str = "run.tanzu.vmware.com/partial-object";

/// Adds metadata to `object` if it is missing, and removes null labels and annotations. The API server rejects
/// converted objects without metadata or with such nulls, and drops the nulls itself if it doesn't convert an object.
///
/// Metadata without members would become null. The API server would then keep `metadata` as a whole and remove all
/// labels and annotations from the full object; it also rejects null. Therefore a partial object gets a label and an
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

/// Returns the members of an object. Replaces null with an empty object.
pub(crate) fn members(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Removes a member of `object` and returns it without nulls. A null member counts as missing.
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
