//! Redacts an XML message: keeps elements and types, and checks every text node.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_xml_entity};
use quick_xml::events::{BytesStart, Event};

use super::keep::{is_plain_value, keeps, keeps_typed};
use super::stand_ins::StandIns;

/// An XML element whose end tag hasn't been read yet.
struct Element {
    /// The qualified name with its prefix.
    name: String,
    local: String,
    type_name: String,
    is_reference: bool,
    has_children: bool,
    text: String,
}

/// Redacts a message. Returns `None` if the message isn't valid XML.
pub(super) fn redact(text: &str, stand_ins: &mut StandIns) -> Option<String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut open: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                if let Some(outer) = open.last_mut() {
                    outer.has_children = true;
                }
                open.push(begin(&start, &mut out)?);
            }
            Event::End(_) => {
                let element = open.pop()?;
                let parent = open.last().map_or("", |outer| outer.local.as_str());
                if !element.has_children {
                    out.push_str(&escape(redact_text(parent, &element, stand_ins).as_str()));
                }
                let _ = write!(out, "</{}>", element.name);
            }
            Event::Text(more) => append(&mut open, &more.xml10_content()),
            Event::CData(more) => append(&mut open, &more.xml10_content()),
            Event::GeneralRef(entity) => {
                let character = entity.resolve_char_ref().ok()?.map(String::from);
                let known = || resolve_xml_entity(&entity.xml10_content()).map(str::to_owned);
                append(&mut open, &character.or_else(known)?);
            }
            Event::Eof => return open.is_empty().then_some(out),
            _ => {}
        }
    }
}

/// Writes a start tag with its `xmlns`, `type`, `nil` and `versionId` attributes. Other attributes are omitted.
fn begin(start: &BytesStart<'_>, out: &mut String) -> Option<Element> {
    let name = start.name().into_inner().to_owned();
    let local = start.local_name().into_inner().to_owned();
    let mut element = Element {
        name,
        local,
        type_name: String::new(),
        is_reference: false,
        has_children: false,
        text: String::new(),
    };
    let _ = write!(out, "<{}", element.name);
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.ok()?;
        let key = attribute.key.into_inner();
        let value = attribute.value.as_ref();
        match key.rsplit_once(':') {
            None if key == "type" => element.is_reference = true,
            Some((_, "type")) => {
                value.rsplit(':').next().unwrap_or_default().clone_into(&mut element.type_name);
            }
            Some(("xmlns", _) | (_, "nil")) => {}
            None if matches!(key, "xmlns" | "versionId") => {}
            _ => continue,
        }
        // The value is still escaped as in the source.
        let _ = write!(out, " {key}=\"{}\"", value.replace('"', "&quot;"));
    }
    out.push('>');
    Some(element)
}

fn append(open: &mut [Element], more: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(more);
    }
}

fn redact_text(parent: &str, element: &Element, stand_ins: &mut StandIns) -> String {
    let Element { local, type_name, is_reference, text, .. } = element;
    if *is_reference {
        return stand_ins.reference(text);
    }
    let kept = if type_name.is_empty() {
        keeps(parent, local, text) || is_plain_value(local, text)
    } else {
        keeps_typed(type_name, text)
    };
    if kept { text.clone() } else { stand_ins.of(text) }
}
