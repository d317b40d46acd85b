//! Encodes values as XML.
//!
//! Fields are written in the order in which they were added, which must be the WSDL order: vCenter requires it.

use std::fmt::Write as _;

use crate::{MoRef, Object, Value};

const HEAD: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/""#,
    r#" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">"#
);

/// Builds a request body. `key` identifies the session for services that don't read the cookie.
pub(super) fn build_envelope(
    namespace: &str,
    key: Option<&str>,
    target: &MoRef,
    method: &str,
    args: Option<&Object>,
) -> String {
    let mut out = String::with_capacity(1024);
    out.push_str(HEAD);
    if let Some(key) = key {
        out.push_str("<soapenv:Header><vcSessionCookie>");
        write_text(&mut out, key);
        out.push_str("</vcSessionCookie></soapenv:Header>");
    }
    out.push_str("<soapenv:Body><");
    out.push_str(method);
    write_attribute(&mut out, "xmlns", namespace);
    out.push('>');
    write_reference(&mut out, "_this", "", target);
    for (name, value) in args.into_iter().flat_map(Object::fields) {
        write_element(&mut out, name, value);
    }
    close(&mut out, method);
    out.push_str("</soapenv:Body></soapenv:Envelope>");
    out
}

/// Writes a field. A list becomes one element per member, and a null isn't written.
pub(crate) fn write_element(out: &mut String, name: &str, value: &Value) {
    match value {
        Value::Null => {}
        Value::List(items) => {
            for item in items {
                write_element(out, name, item);
            }
        }
        Value::Ref(moref) => write_reference(out, name, "", moref),
        Value::Object(object) => {
            open(out, name, object.type_name());
            for (name, value) in object.fields() {
                write_element(out, name, value);
            }
            close(out, name);
        }
        Value::Any(type_name, inner) => write_any(out, name, type_name, inner),
        scalar => {
            open(out, name, "");
            write_content(out, scalar);
            close(out, name);
        }
    }
}

/// Writes a field whose declared type is `Any`. The element must therefore name the value's own type.
fn write_any(out: &mut String, name: &str, type_name: &str, value: &Value) {
    match value {
        Value::Ref(moref) => write_reference(out, name, type_name, moref),
        Value::List(items) => {
            open(out, name, type_name);
            let member = member_of(type_name);
            for item in items {
                write_element(out, &member, item);
            }
            close(out, name);
        }
        Value::Object(_) | Value::Any(..) => write_element(out, name, value),
        scalar => {
            open(out, name, &schema_type(type_name));
            write_content(out, scalar);
            close(out, name);
        }
    }
}

/// Returns the `xsi:type` name. Lowercase names are XML Schema types, and VIM types start with a capital letter.
fn schema_type(type_name: &str) -> String {
    match type_name {
        "binary" => "xsd:base64Binary".to_owned(),
        name if name.starts_with(|first: char| first.is_ascii_lowercase()) => format!("xsd:{name}"),
        name => name.to_owned(),
    }
}

/// Returns the element name for an array type's members: `string` for `ArrayOfString`, `OptionValue` for
/// `ArrayOfOptionValue`.
fn member_of(type_name: &str) -> String {
    let member = type_name.strip_prefix("ArrayOf").unwrap_or(type_name);
    match member {
        "String" | "Int" | "Long" | "Short" | "Byte" | "Boolean" | "Double" | "Float" => {
            member.to_ascii_lowercase()
        }
        "AnyType" => "anyType".to_owned(),
        other => other.to_owned(),
    }
}

fn write_reference(out: &mut String, name: &str, type_name: &str, moref: &MoRef) {
    out.push('<');
    out.push_str(name);
    // `xsi:type` is written before `type`, because some parsers take the last attribute called `type` in any namespace.
    if !type_name.is_empty() {
        write_attribute(out, "xsi:type", type_name);
    }
    write_attribute(out, "type", moref.kind());
    out.push('>');
    write_text(out, moref.id());
    close(out, name);
}

fn open(out: &mut String, name: &str, type_name: &str) {
    out.push('<');
    out.push_str(name);
    if !type_name.is_empty() {
        write_attribute(out, "xsi:type", type_name);
    }
    out.push('>');
}

fn close(out: &mut String, name: &str) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

fn write_attribute(out: &mut String, name: &str, value: &str) {
    out.push(' ');
    out.push_str(name);
    out.push_str("=\"");
    write_text(out, value);
    out.push('"');
}

fn write_content(out: &mut String, scalar: &Value) {
    match scalar {
        Value::Str(value) => write_text(out, value),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        // Writing to a string can't fail.
        Value::Int(number) => drop(write!(out, "{number}")),
        Value::Float(number) => drop(write!(out, "{number}")),
        _ => {}
    }
}

/// Writes escaped text. Parsers read a carriage return as a line feed, so it is escaped. Control characters that XML
/// can't represent are replaced.
fn write_text(out: &mut String, value: &str) {
    let mut done = 0;
    for (at, byte) in value.bytes().enumerate() {
        let escape = match byte {
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'&' => "&amp;",
            b'"' => "&quot;",
            b'\r' => "&#13;",
            b'\t' | b'\n' | b' '.. => continue,
            _ => "\u{fffd}",
        };
        out.push_str(&value[done..at]);
        out.push_str(escape);
        done = at + 1;
    }
    out.push_str(&value[done..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: impl Into<Value>) -> String {
        let mut out = String::new();
        write_element(&mut out, "x", &value.into());
        out
    }

    #[test]
    fn every_value_has_its_form() {
        let option =
            Object::new("OptionValue").with("key", "k").with("value", Value::any_string("a<b>&\"\r\n"));
        let any = |type_name, value: Value| Value::Any(type_name, Box::new(value));
        let cases = [
            (Value::Null, ""),
            (true.into(), "<x>true</x>"),
            (Value::Int(i64::MAX), "<x>9223372036854775807</x>"),
            (Value::Float(0.5), "<x>0.5</x>"),
            ("".into(), "<x></x>"),
            (vec!["a", "b"].into(), "<x>a</x><x>b</x>"),
            (Vec::<String>::new().into(), ""),
            (MoRef::vm("vm-1").into(), r#"<x type="VirtualMachine">vm-1</x>"#),
            (
                any("ManagedObjectReference", MoRef::vm("vm-1").into()),
                r#"<x xsi:type="ManagedObjectReference" type="VirtualMachine">vm-1</x>"#,
            ),
            (any("int", 3.into()), r#"<x xsi:type="xsd:int">3</x>"#),
            (any("binary", "AAEC".into()), r#"<x xsi:type="xsd:base64Binary">AAEC</x>"#),
            (
                any("VirtualMachinePowerState", "poweredOn".into()),
                r#"<x xsi:type="VirtualMachinePowerState">poweredOn</x>"#,
            ),
            (
                any("ArrayOfString", vec!["a", "b"].into()),
                r#"<x xsi:type="ArrayOfString"><string>a</string><string>b</string></x>"#,
            ),
            (
                option.into(),
                "<x xsi:type=\"OptionValue\"><key>k</key><value xsi:type=\"xsd:string\">a&lt;b&gt;&amp;&quot;&#13;\n</value></x>",
            ),
            ("a\u{0}b\u{7f}é".into(), "<x>a\u{fffd}b\u{7f}é</x>"),
        ];
        for (value, expected) in cases {
            assert_eq!(written(value), expected);
        }
    }

    #[test]
    fn an_envelope_holds_the_call() {
        let view = MoRef::new("ListView", "session[52]\"1");
        let args = Object::new("ModifyListViewRequestType").with("add", vec![MoRef::task("task-1")]);
        insta::assert_snapshot!(build_envelope("urn:vim25", None, &view, "ModifyListView", Some(&args)));
    }
}
