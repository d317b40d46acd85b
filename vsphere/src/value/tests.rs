//! Tests that accessors read text from XML and that debug output doesn't contain secrets.

use super::*;
use crate::{CustomizationIdentity, CustomizationSpec, VAppChange, VAppProperty};

#[test]
fn accessors_read_what_xml_leaves_as_text() {
    let cases =
        [("42", Some(42), None), ("true", None, Some(true)), ("1", Some(1), Some(true)), ("x", None, None)];
    for (text, number, truth) in cases {
        let value = Value::from(text);
        assert_eq!(value.as_i64(), number, "{text}");
        assert_eq!(value.as_bool(), truth, "{text}");
    }
    assert_eq!(Value::from("one").items().len(), 1);
    assert_eq!(Value::Null.items().len(), 0);
}

#[test]
fn secrets_are_not_printed() {
    let login = Object::new("LoginRequestType").with("userName", "u").with("password", "hunter2");
    let option = Object::new("OptionValue")
        .with("key", "guestinfo.userdata")
        .with("value", Value::any_string("ca key"));
    let plain =
        Object::new("OptionValue").with("key", "disk.enableUUID").with("value", Value::any_string("TRUE"));
    let text = format!("{:?}", Value::from(vec![login, option, plain]));
    assert!(!text.contains("hunter2") && !text.contains("ca key"), "{text}");
    assert!(text.contains("TRUE"), "{text}");
}

#[test]
fn debug_output_omits_the_data_of_a_guest() {
    const CANARY: &str = "ca key";
    let property = VAppProperty { value: Some(CANARY.into()), ..VAppProperty::default() };
    let properties = VAppChange { properties: vec![property], ..VAppChange::default() };
    let prep = |identity| CustomizationSpec {
        identity,
        dns_suffixes: Vec::new(),
        dns_servers: Vec::new(),
        adapters: Vec::new(),
    };
    let sysprep = prep(CustomizationIdentity::SysprepText(CANARY.into()));
    let userdata = Some(CANARY.to_owned());
    let cloud_init = prep(CustomizationIdentity::CloudinitPrep { metadata: String::new(), userdata });
    let ticket = Object::new("VirtualMachineTicket").with("ticket", CANARY).with("url", CANARY);
    let values: [Value; 4] =
        [properties.clone().into(), sysprep.clone().into(), cloud_init.clone().into(), ticket.into()];
    for text in
        [format!("{values:?}"), format!("{properties:?}"), format!("{sysprep:?}"), format!("{cloud_init:?}")]
    {
        assert!(!text.contains(CANARY), "{text}");
    }
}
