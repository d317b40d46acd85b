//! Decodes SOAP responses: results, faults, and bodies that aren't SOAP.

use super::reader::{ENVELOPE, Reader, Unreadable};
use crate::value::known_name;
use crate::wire::codec::{ResponseError, classify_fault_response, classify_status};
use crate::{Fault, Object, Value};

/// The content of an envelope: a result or a fault.
enum Body {
    Answer(Value),
    Fault(Value),
}

pub(super) fn decode(status: u16, body: &[u8]) -> Result<Value, ResponseError> {
    let success = (200..300).contains(&status);
    match str::from_utf8(body).map_err(|error| error.to_string()).and_then(parse_envelope) {
        Ok(Some(Body::Answer(value))) if success => Ok(value),
        Ok(Some(Body::Fault(fault))) => {
            Err(classify_fault_response(status, Fault::read(&add_fault_string(fault))))
        }
        // An HTML page with status 200 comes from a proxy, never from vCenter's API.
        Ok(None) if success && !body.trim_ascii().is_empty() => Err(ResponseError::Overloaded),
        Err(cause) if success => {
            Err(ResponseError::Unexpected(format!("HTTP status {status}, unreadable SOAP: {cause}")))
        }
        _ => Err(classify_status(status)),
    }
}

/// Parses an envelope. Returns `None` if the root element isn't an envelope.
fn parse_envelope(text: &str) -> Result<Option<Body>, Unreadable> {
    let mut reader = Reader::new(text);
    let Ok(Some(root)) = reader.child() else { return Ok(None) };
    if !reader.is(&root, ENVELOPE, "Envelope") {
        return Ok(None);
    }
    while let Some(part) = reader.child()? {
        if !reader.is(&part, ENVELOPE, "Body") {
            reader.value(&part)?;
            continue;
        }
        let Some(answer) = reader.child()? else { break };
        let fault = reader.is(&answer, ENVELOPE, "Fault");
        let value = reader.value(&answer)?;
        return Ok(Some(if fault { Body::Fault(value) } else { Body::Answer(value.take("returnval")) }));
    }
    Err("the envelope has no body".to_owned())
}

/// Returns the fault object with the `faultstring` as an additional field, as in VI/JSON.
fn add_fault_string(fault: Value) -> Value {
    let text = fault.get("faultstring").as_str().unwrap_or_default().to_owned();
    let mut object = match fault.take("detail") {
        Value::Object(detail) => detail.into_first().map_or_else(|| Object::new(""), name_by_type),
        _ => Object::new(""),
    };
    object.push("faultstring", text.into());
    Value::Object(object)
}

/// Names a fault object after its `xsi:type`, or after its element, whose name is the type name followed by `Fault`.
fn name_by_type((element, value): (std::borrow::Cow<'static, str>, Value)) -> Object {
    match value {
        Value::Object(object) if !object.type_name().is_empty() => object,
        Value::Object(object) => {
            object.renamed(known_name(element.strip_suffix("Fault").unwrap_or(&element)))
        }
        _ => Object::new(known_name(element.strip_suffix("Fault").unwrap_or(&element))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(body: &str) -> String {
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema"
              xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><S:Header><a/></S:Header><S:Body>{body}</S:Body></S:Envelope>"#
        )
    }

    fn fault(detail: &str) -> String {
        envelope(&format!(
            "<S:Fault><faultcode>ServerFaultCode</faultcode><faultstring>The name 'a' exists.</faultstring>{detail}</S:Fault>"
        ))
    }

    #[test]
    fn answers_are_distinguished() {
        let named =
            r#"<detail><DuplicateNameFault xmlns="urn:vim25"><name>a</name></DuplicateNameFault></detail>"#;
        let typed = r#"<detail><Fault xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="NotAuthenticated"></Fault></detail>"#;
        let empty = r#"<detail><NotSupportedFault xmlns="urn:vim25"/></detail>"#;
        let task = r#"<PowerOnVM_TaskResponse xmlns="urn:vim25"><returnval type="Task">task-1</returnval></PowerOnVM_TaskResponse>"#;
        let cases = [
            (200, envelope(task), "Ok(Task:task-1)"),
            (200, envelope(r#"<LogoutResponse xmlns="urn:vim25"/>"#), "Ok(null)"),
            (200, "<html>hello</html>".into(), "Err(Overloaded)"),
            (200, "hello".into(), "Err(Overloaded)"),
            (
                200,
                envelope("<a>"),
                "Err(Unexpected(\"HTTP status 200, unreadable SOAP: ill-formed document: expected `</a>`, but `</S:Body>` was found\"))",
            ),
            (500, fault(named), "Err(Fault(The name 'a' exists (DuplicateName)))"),
            (500, fault(typed), "Err(Fault(The name 'a' exists (NotAuthenticated)))"),
            (500, fault(empty), "Err(Fault(The name 'a' exists (NotSupported)))"),
            (500, fault(""), "Err(Fault(The name 'a' exists (MethodFault)))"),
            (503, "<html>upstream connect error</html>".into(), "Err(Overloaded)"),
            (500, String::new(), "Err(Overloaded)"),
            (401, String::new(), "Err(NotAuthenticated)"),
            (404, "404 page not found".into(), "Err(NoSuchPath)"),
        ];
        for (status, body, expected) in cases {
            assert_eq!(format!("{:?}", decode(status, body.as_bytes())), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_fault_keeps_its_fields_and_its_reasons() {
        let detail = r#"<detail><DuplicateNameFault xmlns="urn:vim25" xsi:type="DuplicateName">
            <faultMessage><key>k</key><message>in folder b</message></faultMessage>
            <name>a</name><object type="VirtualMachine">vm-7</object></DuplicateNameFault></detail>"#;
        let Err(ResponseError::Fault(read)) = decode(500, fault(detail).as_bytes()) else { panic!() };
        assert_eq!(read.to_string(), "The name 'a' exists: in folder b (DuplicateName)");
        let held = crate::Kind::DuplicateName { name: "a".into(), holder: Some(crate::MoRef::vm("vm-7")) };
        assert_eq!(crate::fault::classify_fault(&read), held);
    }
}
