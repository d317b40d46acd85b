//! Redacts a JSON message.

use serde_json::{Map, Value as Json};

use super::keep::{is_member, keeps, keeps_typed};
use super::stand_ins::StandIns;

/// Redacts a message. Returns `None` if the message isn't valid JSON.
pub(super) fn redact(text: &str, stand_ins: &mut StandIns) -> Option<String> {
    let message = serde_json::from_str(text).ok()?;
    serde_json::to_string(&redact_value("", "", message, stand_ins)).ok()
}

fn redact_value(parent: &str, key: &str, json: Json, stand_ins: &mut StandIns) -> Json {
    match json {
        Json::String(text) if keeps(parent, key, &text) => Json::String(text),
        Json::String(text) => Json::String(stand_ins.of(&text)),
        Json::Array(items) => {
            Json::Array(items.into_iter().map(|item| redact_value(parent, key, item, stand_ins)).collect())
        }
        Json::Object(members) => Json::Object(redact_object(key, members, stand_ins)),
        plain => plain,
    }
}

fn redact_object(key: &str, members: Map<String, Json>, stand_ins: &mut StandIns) -> Map<String, Json> {
    let type_name = members.get("_typeName").and_then(Json::as_str).unwrap_or_default().to_owned();
    let is_reference = type_name == "ManagedObjectReference";
    // The Automation API doesn't send `_typeName`, and also uses such objects for values other than references.
    let is_pair = members.len() == 2 && members.contains_key("type") && members.contains_key("value");
    let redacted = members.into_iter().map(|(name, member)| {
        let member = match (name.as_str(), member) {
            ("value", Json::String(id)) if is_reference => Json::String(stand_ins.reference(&id)),
            ("value", Json::String(text)) if is_pair => Json::String(stand_ins.reference_or_name(&text)),
            ("_value", Json::String(text)) if keeps_typed(&type_name, &text) => Json::String(text),
            (_, member) => redact_value(key, &name, member, stand_ins),
        };
        (if is_member(&name) { name } else { stand_ins.of(&name) }, member)
    });
    redacted.collect()
}
