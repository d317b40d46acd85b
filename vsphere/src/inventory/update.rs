//! Typed updates from the property collector.

use crate::{MoRef, Value};

/// A `WaitForUpdatesEx` response.
#[derive(Debug, Default)]
pub(super) struct UpdateSet {
    pub version: String,
    pub truncated: bool,
    pub objects: Vec<ObjectUpdate>,
}

/// An update to one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectUpdate {
    pub obj: MoRef,
    pub kind: UpdateKind,
    /// Property paths and their new values; null if the property is unset.
    pub changes: Vec<(String, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateKind {
    Enter,
    Modify,
    Leave,
}

impl UpdateSet {
    /// Reads a response. Returns `None` for the empty response that vCenter sends if there were no changes before the
    /// timeout.
    pub fn read(answer: Value) -> Option<Self> {
        let version = answer.get("version").as_str()?.to_owned();
        let truncated = answer.get("truncated").as_bool().unwrap_or(false);
        let objects = answer
            .take("filterSet")
            .into_items()
            .into_iter()
            .flat_map(|filter| filter.take("objectSet").into_items())
            .filter_map(ObjectUpdate::read)
            .collect();
        Some(Self { version, truncated, objects })
    }
}

impl ObjectUpdate {
    fn read(update: Value) -> Option<Self> {
        let obj = update.get("obj").as_moref()?.clone();
        let kind = match update.get("kind").as_str()? {
            "enter" => UpdateKind::Enter,
            "modify" => UpdateKind::Modify,
            "leave" => UpdateKind::Leave,
            _ => return None,
        };
        let changes = update.take("changeSet").into_items().into_iter().filter_map(read_change).collect();
        Some(Self { obj, kind, changes })
    }
}

/// Reads a property change. `assign` carries the new value; `remove` and `indirectRemove` unset the property.
fn read_change(change: Value) -> Option<(String, Value)> {
    let name = change.get("name").as_str()?.to_owned();
    let gone = matches!(change.get("op").as_str(), Some("remove" | "indirectRemove"));
    Some((name, if gone { Value::Null } else { change.take("val") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_set_is_read_as_vcenter_sends_it() {
        let body = r#"{"_typeName":"UpdateSet","version":"3","truncated":true,"filterSet":[{"_typeName":"PropertyFilterUpdate",
            "filter":{"_typeName":"ManagedObjectReference","type":"PropertyFilter","value":"session[1]2"},"objectSet":[
            {"kind":"modify","obj":{"type":"Task","value":"task-9","_typeName":"ManagedObjectReference"},"changeSet":[
              {"_typeName":"PropertyChange","name":"info.state","op":"assign","val":{"_typeName":"TaskInfoState","_value":"success"}},
              {"_typeName":"PropertyChange","name":"info.result","op":"assign","val":{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"vm-7"}},
              {"_typeName":"PropertyChange","name":"info.error","op":"indirectRemove"},
              {"_typeName":"PropertyChange","name":"info.progress","op":"assign","val":null}],"_typeName":"ObjectUpdate"},
            {"_typeName":"ObjectUpdate","kind":"leave","obj":{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"vm-1"}}]}]}"#;
        let set = UpdateSet::read(serde_json::from_str(body).unwrap()).unwrap();
        assert_eq!((set.version.as_str(), set.truncated), ("3", true));
        let modified = ObjectUpdate {
            obj: MoRef::task("task-9"),
            kind: UpdateKind::Modify,
            changes: vec![
                ("info.state".into(), "success".into()),
                ("info.result".into(), MoRef::vm("vm-7").into()),
                ("info.error".into(), Value::Null),
                ("info.progress".into(), Value::Null),
            ],
        };
        let left = ObjectUpdate { obj: MoRef::vm("vm-1"), kind: UpdateKind::Leave, changes: Vec::new() };
        assert_eq!(set.objects, [modified, left]);
        assert!(UpdateSet::read(Value::Null).is_none());
    }
}
