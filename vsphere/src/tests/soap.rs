//! Translates between the client's SOAP and the tests' JSON.

use crate::wire::{Json, Reader, write_element};
use crate::{Object, Value};

/// Returns a server's version list with `newest` first.
pub fn versions(newest: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><namespaces version="1.0"><namespace><name>urn:vim25</name><version>{newest}</version>
        <priorVersions><version>6.7</version></priorVersions></namespace></namespaces>"#
    )
}

/// Extracts the session from a cookie.
pub fn session(cookie: &str) -> String {
    cookie.trim_start_matches("vmware_soap_session=").trim_matches('"').to_owned()
}

/// Returns an envelope's method name and the arguments as JSON.
pub fn question(envelope: &str) -> (String, String) {
    let mut reader = Reader::new(envelope);
    reader.child().unwrap().unwrap();
    let mut part = reader.child().unwrap().unwrap();
    if part.local_name().into_inner() == "Header" {
        reader.value(&part).unwrap();
        part = reader.child().unwrap().unwrap();
    }
    assert_eq!(part.local_name().into_inner(), "Body");
    let method = reader.child().unwrap().unwrap();
    let arguments = reader.value(&method).unwrap();
    let json = serde_json::to_string(&Json(&arguments)).unwrap();
    (method.local_name().into_inner().to_owned(), json)
}

/// Translates a JSON result or fault into SOAP. A body that isn't JSON simulates another server and isn't changed.
pub fn answer(method: &str, body: &str) -> String {
    let value: Value = match body {
        "" => Value::Null,
        text => match serde_json::from_str(text) {
            Ok(value) => value,
            Err(_) => return text.to_owned(),
        },
    };
    let inside = if let Some(text) = value.get("faultstring").as_str() {
        let mut detail = String::new();
        write_element(&mut detail, "Fault", &value);
        format!(
            "<S:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{text}</faultstring><detail>{detail}</detail></S:Fault>"
        )
    } else {
        let mut answer = String::new();
        let returned = Object::new("").with("returnval", value);
        write_element(&mut answer, &format!("{method}Response"), &returned.into());
        answer
    };
    format!(
        r#"<?xml version="1.0"?><S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><S:Body>{inside}</S:Body></S:Envelope>"#
    )
}
