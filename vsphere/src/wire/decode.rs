//! Decodes VI/JSON into values.
//!
//! `_typeName` may appear at any position in an object, so an object is read completely before its type is known.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::value::known_name;
use crate::{MoRef, Object, Value};

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue)
    }
}

/// A field or type name. Common names are not allocated.
struct Name(Cow<'static, str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, text: &str) -> Result<Name, E> {
                Ok(Name(known_name(text)))
            }
        }
        from.deserialize_str(Text)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a VI/JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    #[allow(clippy::cast_precision_loss)] // only numbers beyond the i64 range are converted
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Str(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut type_name = Cow::Borrowed("");
        let mut boxed = None;
        let mut fields: Vec<(Cow<'static, str>, Value)> = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            match name.as_ref() {
                "_typeName" => type_name = map.next_value::<Name>()?.0,
                "_value" => boxed = Some(map.next_value()?),
                _ => fields.push((name, map.next_value()?)),
            }
        }
        if let Some(inner) = boxed {
            return Ok(unbox(&type_name, inner));
        }
        Ok(moref(&type_name, &fields).unwrap_or_else(|| Value::Object(Object::of(type_name, fields))))
    }
}

/// Unwraps a boxed value. A boxed reference may be inline or nested in a second object.
fn unbox(type_name: &str, inner: Value) -> Value {
    if type_name == "ManagedObjectReference"
        && let Value::Object(object) = &inner
        && let (Some(kind), Some(id)) = (object.get("type").as_str(), object.get("value").as_str())
    {
        return Value::Ref(MoRef::new(kind, id));
    }
    inner
}

fn moref(type_name: &str, fields: &[(Cow<'static, str>, Value)]) -> Option<Value> {
    let text =
        |name: &str| fields.iter().find(|(field, _)| field == name).and_then(|(_, value)| value.as_str());
    let (kind, id) = (text("type")?, text("value")?);
    let named = type_name == "ManagedObjectReference";
    let implied = type_name.is_empty() && fields.len() == 2;
    (named || implied).then(|| Value::Ref(MoRef::new(kind, id)))
}
