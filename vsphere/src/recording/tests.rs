use reqwest::{Client, Method};

use super::*;

fn record(path: &str, action: Option<&str>, request: &str, answer: &str) -> RecordedExchange {
    let recorder = Recorder::new();
    keep(&recorder, path, action, request, answer);
    let (mut exchanges, left_out) = recorder.take();
    assert_eq!(left_out, 0, "{request} {answer}");
    exchanges.remove(0)
}

fn keep(recorder: &Recorder, path: &str, action: Option<&str>, request: &str, answer: &str) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::builder().no_proxy().build().unwrap();
    let builder = client.request(Method::POST, format!("https://vc.example.com{path}"));
    let builder = action.into_iter().fold(builder, |builder, action| builder.header("SOAPAction", action));
    let request = builder.body(request.to_owned()).build().unwrap();
    recorder.keep(&request, 200, answer.as_bytes());
}

const SECRETS: &[&str] = &[
    "hunter2",
    "admin@corp",
    "vc.example.com",
    "esx-07",
    "10.1.2.3",
    "421d8f3c-0000-1111-2222-333344445555",
    "52aa52aa-1111",
    "00:50:56:aa:bb:cc",
    "MIIC",
    "payroll",
    "4242",
];

fn assert_clean(exchange: &RecordedExchange) {
    let text = format!("{exchange:?}");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[test]
fn names_addresses_and_secrets_are_replaced_over_soap() {
    let request = r#"<e:Envelope xmlns:e="x"><e:Header><vcSessionCookie>52aa52aa-1111</vcSessionCookie></e:Header><e:Body>
        <Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this><userName>admin@corp</userName>
        <password>4242</password></Login></e:Body></e:Envelope>"#;
    let answer = r#"<?xml version="1.0"?><e:Envelope xmlns:e="x" xmlns:xsi="y"><e:Body><R xmlns="urn:vim25"><returnval>
        <about><fullName>VMware vCenter Server 8.0.3 build-1</fullName><instanceUuid>421d8f3c-0000-1111-2222-333344445555</instanceUuid></about>
        <obj type="VirtualMachine">vm-12</obj><view type="ContainerView">session[52aa52aa-1111]x</view>
        <propSet><name>summary.runtime.powerState</name><val xsi:type="VirtualMachinePowerState">poweredOn</val></propSet>
        <propSet><name>name</name><val xsi:type="xsd:string">payroll &amp; co</val></propSet>
        <propSet><name>guest.ipAddress</name><val xsi:type="xsd:string">10.1.2.3</val></propSet>
        <host><name>esx-07</name><numCpu>8</numCpu><mac>00:50:56:aa:bb:cc</mac><sslThumbprint>MIIC</sslThumbprint><url>https://vc.example.com/a</url></host>
        </returnval></R></e:Body></e:Envelope>"#;
    let kept = record("/sdk", Some("urn:vim25/8.0.3.0"), request, answer);
    assert_clean(&kept);
    for word in [
        "VMware vCenter Server 8.0.3 build-1",
        "<obj type=\"VirtualMachine\">vm-12</obj>",
        "poweredOn",
        "guest.ipAddress",
        "<numCpu>8</numCpu>",
        "240.0.0.",
        "02:00:00:00:00:",
    ] {
        assert!(kept.answer.contains(word), "{word}: {}", kept.answer);
    }
    assert_eq!(kept.headers.soap_action.as_deref(), Some("urn:vim25/8.0.3.0"));
}

#[test]
fn names_addresses_and_secrets_are_replaced_over_json() {
    let request = r#"{"_typeName":"LoginRequestType","userName":"admin@corp","password":"hunter2","payroll co":{"type":"esx-07 x"}}"#;
    let answer = r#"{"_typeName":"UpdateSet","version":"3","filterSet":[{"objectSet":[{"kind":"enter",
        "obj":{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"vm-7"},"changeSet":[
        {"name":"config.uuid","op":"assign","val":{"_typeName":"string","_value":"421d8f3c-0000-1111-2222-333344445555"}},
        {"name":"runtime.powerState","val":{"_typeName":"VirtualMachinePowerState","_value":"poweredOn"}},
        {"name":"name","val":{"_typeName":"string","_value":"payroll"}},
        {"name":"guest.net","val":{"_typeName":"ArrayOfString","_value":["10.1.2.3","esx-07"]}}]}]}]}"#;
    let path = "/sdk/vim25/8.0.3.0/ListView/session%5B52aa52aa-1111%5Dx/Login?library_id=421d8f3c-0000-1111-2222-333344445555&action=find";
    let kept = record(path, None, request, answer);
    assert_clean(&kept);
    for word in ["\"vm-7\"", "poweredOn", "config.uuid", "UpdateSet", "00000000-0000-4000-8000-"] {
        assert!(kept.answer.contains(word), "{word}: {}", kept.answer);
    }
    assert!(kept.path.starts_with("/sdk/vim25/8.0.3.0/ListView/text-"), "{}", kept.path);
    assert!(kept.path.ends_with("&action=find"), "{}", kept.path);
    let uuid = kept.path.split("library_id=").nth(1).unwrap().split('&').next().unwrap();
    assert!(kept.answer.contains(uuid), "one UUID has one stand-in: {} {}", kept.path, kept.answer);
}

/// A user-chosen name can consist of the same characters as an API word.
#[test]
fn names_that_look_like_words_are_replaced_where_users_choose_them() {
    let answer = r#"{"type":"label","value":"payroll"}"#;
    let kept = record("/api/vcenter/vm?names=payroll&hosts=esx-07&folders=group-v3", None, "", answer);
    assert_clean(&kept);
    assert!(kept.path.ends_with("&folders=group-v3"), "{}", kept.path);
    let without_value = record("/api/vcenter/vm?payroll&esx%2D07&vm-12", None, "", "");
    assert_clean(&without_value);
    assert!(without_value.path.ends_with("&vm-12"), "{}", without_value.path);
    let reference = record("/api/x", None, "", r#"{"type":"VirtualMachine","value":"vm-68"}"#);
    assert!(reference.answer.contains("vm-68"), "{}", reference.answer);
    let missing = r#"{"missingSet":[{"path":"config.uuid"}],"file":{"path":"payroll"}}"#;
    let missing = record("/api/x", None, "", missing);
    assert_clean(&missing);
    assert!(missing.answer.contains("config.uuid"), "{}", missing.answer);
}

#[test]
fn what_cannot_be_read_or_has_a_known_secret_is_left_out() {
    let recorder = Recorder::new();
    recorder.forbid("hunter2");
    keep(&recorder, "/sdk", None, "", "<a><b></a>");
    keep(&recorder, "/api/x", None, "", "not json");
    // A password that looks like an API word, in a position for such words.
    keep(&recorder, "/api/x", None, "", r#"{"state":"hunter2"}"#);
    keep(&recorder, "/cls/data/disk.vmdk", None, "", "{}");
    assert_eq!(recorder.take(), (Vec::new(), 3));
    let mut headers = header::HeaderMap::new();
    headers.append("set-cookie", "vmware_soap_session=\"52ab99\"; Path=/".parse().unwrap());
    recorder.forbid_session(&headers, "vmware-api-session-id");
    keep(&recorder, "/api/x", None, "", r#"{"state":"52ab99"}"#);
    assert_eq!(recorder.take().1, 1);
}

#[test]
fn a_full_recorder_records_again_after_its_exchanges_are_taken() {
    let recorder = Recorder::new();
    recorder.0.as_ref().unwrap().lock().bytes = LONGEST;
    keep(&recorder, "/api/x", None, "", "{}");
    assert_eq!(recorder.take(), (Vec::new(), 1));
    keep(&recorder, "/api/x", None, "", "{}");
    let (exchanges, left_out) = recorder.take();
    assert_eq!((exchanges.len(), left_out), (1, 0));
}

#[test]
fn a_recorder_that_is_off_keeps_nothing() {
    let recorder = Recorder::default();
    keep(&recorder, "/api/x", None, "", "{}");
    assert!(!recorder.is_on() && recorder.take().0.is_empty());
}

#[test]
fn property_paths_with_a_key_stay() {
    let keeps = |path: &str| super::keep::keeps("propSet", "name", path);
    assert!(keeps("config.extraConfig[\"vmservice.stackID\"]"));
    for other in ["config.extraConfig[\"a key\"]", "payroll [\"x\"]", "[x]", "a[\"b\"", "a\"b"] {
        assert!(!keeps(other), "{other}");
    }
}
