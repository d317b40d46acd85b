//! Decodes XML into values.
//!
//! The reader makes one pass and resolves namespaces, because prefixes differ between servers, and a reference in an
//! `Any` field carries two attributes called `type`. An element's kind (object, list or scalar) is known only at the
//! end of the element.

use std::borrow::Cow;

use quick_xml::NsReader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use crate::value::known_name;
use crate::{MoRef, Object, Value};

const INSTANCE: Namespace<'static> = Namespace("http://www.w3.org/2001/XMLSchema-instance");
/// The envelope's namespace.
pub(crate) const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
/// The maximum element depth, far above the nesting of any API type.
const DEEPEST: usize = 100;

/// The reason why a document can't be decoded.
pub(crate) type Unreadable = String;

/// Reads a document from start to end.
pub(crate) struct Reader<'a> {
    xml: NsReader<&'a [u8]>,
}

/// The declarations in an element's start tag.
#[derive(Default)]
struct Declared<'a> {
    /// The managed object type, if the element is a reference.
    refers_to: Option<Cow<'a, str>>,
    /// The `xsi:type` without its prefix.
    type_name: Option<Cow<'a, str>>,
    nil: bool,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut xml = NsReader::from_str(text);
        xml.config_mut().expand_empty_elements = true;
        Self { xml }
    }

    /// Returns the next child element of the current element, or `None` at the end of the current element.
    pub fn child(&mut self) -> Result<Option<BytesStart<'a>>, Unreadable> {
        loop {
            match self.event()? {
                Event::Start(start) => return Ok(Some(start)),
                Event::End(_) => return Ok(None),
                Event::Eof => return Err("the text ends too early".to_owned()),
                _ => {}
            }
        }
    }

    /// Returns true if a start tag has this namespace and local name.
    pub fn is(&self, start: &BytesStart<'_>, namespace: &str, name: &str) -> bool {
        let (space, local) = self.xml.resolver().resolve_element(start.name());
        local.into_inner() == name && space == ResolveResult::Bound(Namespace(namespace))
    }

    /// Reads the rest of an element whose start tag was just read, and returns the element's value.
    pub fn value(&mut self, start: &BytesStart<'a>) -> Result<Value, Unreadable> {
        self.nested(start, 0)
    }

    fn event(&mut self) -> Result<Event<'a>, Unreadable> {
        self.xml.read_event().map_err(|error| error.to_string())
    }

    fn nested(&mut self, start: &BytesStart<'a>, depth: usize) -> Result<Value, Unreadable> {
        if depth > DEEPEST {
            return Err("the elements are nested too deep".to_owned());
        }
        let declared = self.declared(start)?;
        let mut fields = Vec::new();
        let mut text = Cow::Borrowed("");
        loop {
            match self.event()? {
                Event::Start(child) => {
                    let value = self.nested(&child, depth + 1)?;
                    add(&mut fields, child.local_name().into_inner(), value);
                }
                Event::End(_) => return Ok(declared.holds(fields, text)),
                Event::Text(more) => append(&mut text, more.xml10_content()),
                Event::CData(more) => append(&mut text, more.xml10_content()),
                Event::GeneralRef(entity) => append(&mut text, character(&entity)?),
                Event::Eof => return Err("the text ends too early".to_owned()),
                _ => {}
            }
        }
    }

    fn declared<'s>(&self, start: &'s BytesStart<'_>) -> Result<Declared<'s>, Unreadable> {
        let mut declared = Declared::default();
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let (space, name) = self.xml.resolver().resolve_attribute(attribute.key);
            match (space, name.into_inner()) {
                (ResolveResult::Unbound, "type") => declared.refers_to = Some(attribute.value),
                (ResolveResult::Bound(INSTANCE), "type") => {
                    declared.type_name = Some(without_prefix(attribute.value));
                }
                (ResolveResult::Bound(INSTANCE), "nil") => {
                    declared.nil = matches!(attribute.value.as_ref(), "true" | "1");
                }
                _ => {}
            }
        }
        Ok(declared)
    }
}

impl Declared<'_> {
    /// Builds the value after the element has ended.
    fn holds(self, fields: Vec<(Cow<'static, str>, Value)>, text: Cow<'_, str>) -> Value {
        if self.nil {
            return Value::Null;
        }
        if let Some(kind) = self.refers_to {
            return Value::Ref(MoRef::new(&kind, text.trim()));
        }
        let type_name = self.type_name.unwrap_or_default();
        if type_name.starts_with("ArrayOf") {
            let members = fields.into_iter().next().map(|(_, members)| members);
            return Value::List(members.map(Value::into_items).unwrap_or_default());
        }
        // A fault without fields is still an object.
        let bare = text.is_empty() && type_name.starts_with(|first: char| first.is_ascii_uppercase());
        if bare || !fields.is_empty() {
            return Value::Object(Object::of(known_name(&type_name), fields));
        }
        parse_scalar(&type_name, text)
    }
}

/// Converts text by its type. Untyped text stays a string, because only the code that reads the field knows its type.
fn parse_scalar(type_name: &str, text: Cow<'_, str>) -> Value {
    let read = match type_name {
        "boolean" => Value::from(text.as_ref()).as_bool().map(Value::Bool),
        "int" | "long" | "short" | "byte" => Value::from(text.as_ref()).as_i64().map(Value::Int),
        "float" | "double" => text.trim().parse().ok().map(Value::Float),
        _ => None,
    };
    read.unwrap_or_else(|| Value::Str(text.into_owned()))
}

/// Adds a field. Consecutive elements with the same name form a list.
fn add(fields: &mut Vec<(Cow<'static, str>, Value)>, name: &str, value: Value) {
    match fields.last_mut() {
        Some((last, Value::List(items))) if last == name && !matches!(value, Value::List(_)) => {
            items.push(value);
        }
        Some((last, first)) if last == name => {
            *first = Value::List(vec![std::mem::take(first), value]);
        }
        _ => fields.push((known_name(name), value)),
    }
}

fn append<'a>(text: &mut Cow<'a, str>, more: Cow<'a, str>) {
    if text.is_empty() {
        *text = more;
    } else {
        text.to_mut().push_str(&more);
    }
}

fn character<'a>(entity: &BytesRef<'a>) -> Result<Cow<'a, str>, Unreadable> {
    if let Some(character) = entity.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(Cow::Owned(character.into()));
    }
    let name = entity.xml10_content();
    let known = resolve_xml_entity(&name).map(Cow::Borrowed);
    known.ok_or_else(|| format!("the entity {name} is not defined"))
}

fn without_prefix(name: Cow<'_, str>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.rsplit(':').next().unwrap_or(name)),
        Cow::Owned(name) => Cow::Owned(name.rsplit(':').next().unwrap_or(&name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inside: &str) -> Result<Value, Unreadable> {
        let text = format!(
            r#"<x xmlns="urn:vim25" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{inside}</x>"#
        );
        let mut reader = Reader::new(&text);
        let start = reader.child()?.unwrap();
        reader.value(&start)
    }

    fn field(inside: &str) -> Value {
        read(inside).unwrap().take("val")
    }

    #[test]
    fn every_form_has_its_value() {
        let fault = Value::Object(Object::new("NotAuthenticated"));
        let cases = [
            (r#"<val i:type="xsd:string">a &lt;b&gt; &amp; &#233;</val>"#, Value::from("a <b> & é")),
            (r#"<val i:type="xsd:int">42</val>"#, 42.into()),
            (r#"<val i:type="xsd:long">9223372036854775807</val>"#, Value::Int(i64::MAX)),
            (r#"<val i:type="xsd:boolean">true</val>"#, true.into()),
            (r#"<val i:type="xsd:double">0.5</val>"#, Value::Float(0.5)),
            (r#"<val i:type="VirtualMachinePowerState">poweredOn</val>"#, "poweredOn".into()),
            ("<val>42</val>", "42".into()),
            ("<val/>", "".into()),
            ("<val></val>", "".into()),
            ("<val> two  words\r\n</val>", " two  words\n".into()),
            ("<val><![CDATA[a<b]]>c</val>", "a<bc".into()),
            ("", Value::Null),
            (r#"<val i:nil="true"/>"#, Value::Null),
            (r#"<val type="Task">task-9</val>"#, MoRef::task("task-9").into()),
            (
                r#"<val i:type="ManagedObjectReference" type="Task">task-9</val>"#,
                MoRef::task("task-9").into(),
            ),
            (
                r#"<val type="Task" i:type="ManagedObjectReference">task-9</val>"#,
                MoRef::task("task-9").into(),
            ),
            (r#"<val i:type="ArrayOfString"/>"#, Value::List(Vec::new())),
            (r#"<val i:type="ArrayOfString"><string>a</string></val>"#, vec!["a"].into()),
            (
                r#"<val i:type="ArrayOfManagedObjectReference"><ManagedObjectReference type="Task">task-1</ManagedObjectReference><ManagedObjectReference type="Task">task-2</ManagedObjectReference></val>"#,
                vec![MoRef::task("task-1"), MoRef::task("task-2")].into(),
            ),
            ("<val>a</val><val>b</val><val>c</val>", vec!["a", "b", "c"].into()),
            (r#"<val i:type="NotAuthenticated"/>"#, fault),
            (
                r#"<val i:type="OptionValue"><key>k</key><value i:type="xsd:string">v</value></val>"#,
                Object::new("OptionValue").with("key", "k").with("value", "v").into(),
            ),
        ];
        for (inside, expected) in cases {
            assert_eq!(field(inside), expected, "{inside}");
        }
    }

    #[test]
    fn lists_keep_to_their_fields() {
        let read = read("<a>1</a><a>2</a> <b>3</b><!-- why --><a>4</a>").unwrap();
        let names: Vec<&str> = read.as_object().unwrap().fields().map(|(name, _)| name).collect();
        assert_eq!((names, read.get("a").items().len()), (vec!["a", "b", "a"], 2));
    }

    #[test]
    fn what_is_broken_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(200), "</a>".repeat(200));
        for inside in ["<val>", "<val>&nope;</val>", "</y>", deep.as_str()] {
            assert!(read(inside).is_err(), "{}", &inside[..inside.len().min(20)]);
        }
    }
}
