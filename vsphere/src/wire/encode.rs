//! Encodes values as VI/JSON.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::{Object, Value};

/// Serializes a value. Every object gets a `_typeName`, because vCenter requires it wherever the declared type is a
/// base type.
pub(crate) struct Json<'a>(pub &'a Value);

pub(super) struct JsonObject<'a>(pub &'a Object);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => out.serialize_unit(),
            Value::Bool(truth) => out.serialize_bool(*truth),
            Value::Int(number) => out.serialize_i64(*number),
            Value::Float(number) => out.serialize_f64(*number),
            Value::Str(text) => out.serialize_str(text),
            Value::Ref(moref) => {
                let mut map = out.serialize_map(Some(3))?;
                map.serialize_entry("_typeName", "ManagedObjectReference")?;
                map.serialize_entry("type", moref.kind())?;
                map.serialize_entry("value", moref.id())?;
                map.end()
            }
            Value::List(items) => out.collect_seq(items.iter().map(Json)),
            Value::Object(object) => JsonObject(object).serialize(out),
            Value::Any(type_name, inner) => {
                let mut map = out.serialize_map(Some(2))?;
                map.serialize_entry("_typeName", type_name)?;
                map.serialize_entry("_value", &Json(inner))?;
                map.end()
            }
        }
    }
}

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("_typeName", self.0.type_name())?;
        for (name, value) in self.0.fields() {
            map.serialize_entry(name, &Json(value))?;
        }
        map.end()
    }
}
