//! What the property collector tells, as data.

use crate::{MoRef, Value};

/// One answer of `WaitForUpdatesEx`.
#[derive(Debug, Default)]
pub(super) struct UpdateSet {
    pub version: String,
    pub truncated: bool,
    pub objects: Vec<ObjectUpdate>,
}

/// News of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectUpdate {
    pub obj: MoRef,
    pub kind: Kind,
    /// Paths and their values, null where the property is gone.
    pub changes: Vec<(String, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Enter,
    Modify,
    Leave,
}

impl UpdateSet {
    /// `None` is what vCenter answers when nothing happened in time.
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
            "enter" => Kind::Enter,
            "modify" => Kind::Modify,
            "leave" => Kind::Leave,
            _ => return None,
        };
        let changes = update.take("changeSet").into_items().into_iter().filter_map(read_change).collect();
        Some(Self { obj, kind, changes })
    }
}

/// `assign` carries the new value; `remove` and `indirectRemove` say that there is none.
fn read_change(change: Value) -> Option<(String, Value)> {
    let name = change.get("name").as_str()?.to_owned();
    let gone = matches!(change.get("op").as_str(), Some("remove" | "indirectRemove"));
    Some((name, if gone { Value::Null } else { change.take("val") }))
}
