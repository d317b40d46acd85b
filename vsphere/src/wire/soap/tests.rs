//! Tests with responses from different SOAP implementations, and with truncated or corrupt responses.

use proptest::prelude::*;

use super::fault::decode;
use super::reader::Reader;
use super::writer::write_element;
use crate::wire::Json;
use crate::wire::codec::ResponseError;
use crate::{MoRef, Object, Value};

/// The same response in the styles of different servers, which choose different namespace prefixes or omit the
/// prefixes.
const HABITS: [&str; 4] = [
    r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><QResponse xmlns="urn:vim25"><returnval><name>a</name><val xsi:type="xsd:int">3</val><obj type="Task">task-1</obj><any xsi:type="ManagedObjectReference" type="Task">task-2</any><list xsi:type="ArrayOfString"><string>x</string></list></returnval></QResponse></soapenv:Body></soapenv:Envelope>"#,
    r#"<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><v:QResponse xmlns:v="urn:vim25" xmlns:t="http://www.w3.org/2001/XMLSchema-instance"><v:returnval><v:name>a</v:name><v:val t:type="x:int" xmlns:x="http://www.w3.org/2001/XMLSchema">3</v:val><v:obj type="Task">task-1</v:obj><v:any type="Task" t:type="v:ManagedObjectReference">task-2</v:any><v:list t:type="v:ArrayOfString"><v:string>x</v:string></v:list></v:returnval></v:QResponse></Body></Envelope>"#,
    r#"<?xml version="1.0"?><!-- by hand --><E:Envelope xmlns:E="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="urn:another"><E:Header><xsi:type>x</xsi:type></E:Header><E:Body><QResponse xmlns="urn:vim25"><returnval>
      <name><![CDATA[a]]></name>
      <val xmlns:XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance" XMLSchema-instance:type="xsd:int">3</val>
      <obj type='Task'>task-1</obj><any xmlns:_XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance" _XMLSchema-instance:type="ManagedObjectReference" type="Task"> task-2 </any>
      <list xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="ArrayOfString"><string>&#120;</string></list></returnval></QResponse></E:Body></E:Envelope>"#,
    r#"<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><Q:QResponse xmlns:Q="urn:vim25" xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><returnval><name>a</name><val xsi:type="int">3</val><obj type="Task">task-1</obj><any type="Task">task-2</any><list xsi:type="vim25:ArrayOfString" xmlns:vim25="urn:vim25"><string>x</string></list></returnval></Q:QResponse></S:Body></S:Envelope>"#,
];

fn expected() -> Value {
    let object = Object::new("")
        .with("name", "a")
        .with("val", 3)
        .with("obj", MoRef::task("task-1"))
        .with("any", MoRef::task("task-2"))
        .with("list", vec!["x"]);
    object.into()
}

#[test]
fn prefixes_are_the_servers_own_affair() {
    for text in HABITS {
        assert_eq!(decode(200, text.as_bytes()).unwrap(), expected(), "{text}");
    }
}

#[test]
fn what_ends_too_early_is_no_answer() {
    for text in HABITS {
        for cut in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            match decode(200, &text.as_bytes()[..cut]) {
                // Only the closing tags of the envelope are missing.
                Ok(value) if cut > 0 && text[..cut].contains("QResponse>") => assert_eq!(value, expected()),
                Ok(value) => assert_eq!((cut, value), (0, Value::Null)),
                Err(ResponseError::Overloaded | ResponseError::Unexpected(_)) => {}
                Err(other) => panic!("{other:?}: {}", &text[..cut]),
            }
        }
    }
}

#[test]
fn entities_of_a_documents_own_are_never_expanded() {
    let laughs = (1..10).fold(String::from(r#"<!ENTITY l0 "ha">"#), |text, level| {
        let below = format!("&l{};", level - 1).repeat(10);
        format!(r#"{text}<!ENTITY l{level} "{below}">"#)
    });
    for (entities, used) in [
        (laughs.as_str(), "&l9;"),
        (r#"<!ENTITY file SYSTEM "file:///etc/passwd">"#, "&file;"),
        ("", "&nobody;"),
    ] {
        let text = format!("<!DOCTYPE x [{entities}]>{}", HABITS[0].replace(">a<", &format!(">{used}<")));
        let refused = decode(200, text.as_bytes());
        let Err(ResponseError::Unexpected(cause)) = refused else { panic!("{refused:?}") };
        assert!(cause.contains("is not defined"), "{cause}");
    }
}

#[test]
fn a_great_answer_is_read_whole() {
    let one = r#"<objects><obj type="VirtualMachine">vm-1</obj><propSet><name>name</name><val xsi:type="xsd:string">a</val></propSet></objects>"#;
    let inside = format!("<returnval>{}</returnval>", one.repeat(50_000));
    let start = HABITS[0].find("<returnval>").unwrap();
    let end = HABITS[0].find("</QResponse>").unwrap();
    let text = format!("{}{inside}{}", &HABITS[0][..start], &HABITS[0][end..]);
    assert_eq!(decode(200, text.as_bytes()).unwrap().get("objects").items().len(), 50_000);
}

/// Generates values with explicit types, as in a field of type `Any`.
fn typed_value() -> impl Strategy<Value = Value> {
    let typed = |type_name: &'static str, value: Value| Value::Any(type_name, Box::new(value));
    let text = || "[^\\p{Cc}]{0,8}|[a&<>\"' \t\r\n]{0,8}";
    let reference = ("[A-Z][a-zA-Z]{0,8}", "[a-z0-9-]{1,8}").prop_map(|(kind, id)| MoRef::new(&kind, id));
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        text().prop_map(move |text| typed("string", text.into())),
        any::<bool>().prop_map(move |truth| typed("boolean", truth.into())),
        any::<i64>().prop_map(move |number| typed("long", Value::Int(number))),
        any::<i16>().prop_map(move |number| typed("double", Value::Float(f64::from(number) + 0.5))),
        reference.prop_map(Value::from),
        proptest::collection::vec(text(), 0..4)
            .prop_map(move |texts| typed("ArrayOfString", texts.into_iter().collect::<Vec<_>>().into())),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        ("[A-Z][a-z]{1,6}", proptest::collection::vec(inner, 0..4)).prop_map(|(kind, fields)| {
            let names = ["key", "name", "obj", "returnval"];
            let object = Object::new(kind);
            names
                .into_iter()
                .zip(fields)
                .fold(object, |object, (name, value)| object.with(name, value))
                .into()
        })
    })
}

/// Removes the explicit types from a value. The reader returns values without them.
fn plain(value: &Value) -> Value {
    match value {
        Value::Any(_, inner) => plain(inner),
        Value::List(items) => Value::List(items.iter().map(plain).collect()),
        Value::Object(object) => {
            let mut same = Object::new(object.type_name().to_owned());
            for (name, value) in object.fields() {
                same.push(name.to_owned(), plain(value));
            }
            same.into()
        }
        other => other.clone(),
    }
}

fn read(text: &str) -> Value {
    let mut reader = Reader::new(text);
    let start = reader.child().unwrap().unwrap();
    reader.value(&start).unwrap().take("val")
}

proptest! {
    #[test]
    fn both_wires_say_the_same(value in typed_value()) {
        let mut text = String::from(
            r#"<x xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">"#,
        );
        write_element(&mut text, "val", &value);
        text.push_str("</x>");
        prop_assert_eq!(read(&text), plain(&value), "{}", text);
        let json = serde_json::to_string(&Json(&value)).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), plain(&value), "{}", json);
    }

    #[test]
    fn garbage_is_refused_or_read_and_nothing_else(habit in 0..HABITS.len(), at in 0..800_usize, noise in "[<>&;\"'=/!\\[\\]a:? -]{1,6}", status in 100..600_u16) {
        let text = HABITS[habit];
        let at = at.min(text.len());
        let broken = format!("{}{noise}{}", &text[..at], &text[(at + noise.len()).min(text.len())..]);
        drop(decode(status, broken.as_bytes()));
        drop(decode(status, noise.as_bytes()));
    }
}
