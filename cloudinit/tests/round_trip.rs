//! What is encoded is what cloud-init reads, and nothing secret is ever printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloudinit::{Error, Metadata, decode, encode, redacted};

use proptest::prelude::*;

fn node() -> Metadata {
    Metadata::of_node("test-cluster-control-plane-jwsx7", "vsphere://423697d9-706c-3e92-7514-088978955321")
        .with_control_plane_endpoint("192.168.123.3", 6443)
}

#[test]
fn metadata_is_one_key_a_line() {
    insta::assert_snapshot!(node().to_yaml().unwrap());
}

#[test]
fn all_six_keys_are_there_even_where_there_is_nothing_to_give() {
    let keys = encode(&node(), b"#cloud-config\n", None).unwrap();
    let names: Vec<_> = keys.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "guestinfo.metadata",
            "guestinfo.metadata.encoding",
            "guestinfo.userdata",
            "guestinfo.userdata.encoding",
            "guestinfo.vendordata",
            "guestinfo.vendordata.encoding",
        ]
    );
    assert_eq!(keys["guestinfo.userdata.encoding"], "gzip+base64");
    assert_eq!(keys["guestinfo.vendordata"], "");
    assert_eq!(keys["guestinfo.vendordata.encoding"], "");
}

#[test]
fn equal_input_gives_equal_bytes() {
    let keys = encode(&node(), b"#cloud-config\n", None).unwrap();
    assert_eq!(keys, encode(&node(), b"#cloud-config\n", None).unwrap());
    let packed = STANDARD.decode(&keys["guestinfo.userdata"]).unwrap();
    assert_eq!(packed[4..8], [0; 4], "no time in the gzip header");
    assert_eq!(packed[9], 255, "no operating system in the gzip header");
}

#[test]
fn a_value_no_guest_bears_is_refused_by_its_key() {
    // Bytes that do not compress: a walk of a linear congruence.
    let noise: Vec<u8> = (0..60_000_u32)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_be_bytes()[0])
        })
        .collect();
    let error = encode(&node(), &noise, None).unwrap_err();
    let Error::TooLong { key, size, limit } = &error else { panic!("{error}") };
    assert_eq!((*key, *limit), ("guestinfo.userdata", 65_536));
    assert!(*size > 65_536);
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    assert!(encode(&node(), &noise[..40_000], None).is_ok());
    assert!(matches!(
        encode(&node(), b"", Some(&noise)),
        Err(Error::TooLong { key: "guestinfo.vendordata", .. })
    ));
}

#[test]
fn every_encoding_of_the_datasource_is_read() {
    let gzipped = encode(&node(), b"hello", None).unwrap()["guestinfo.userdata"].clone();
    let wrapped = gzipped.as_bytes().chunks(16).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
    let table = [
        ("hello", ""),
        ("hello", "none"),
        ("aGVsbG8=", "base64"),
        ("aGVsbG8", "b64"),
        ("aGVs\nbG8=\n", "base64"),
        (gzipped.as_str(), "gzip+base64"),
        (gzipped.as_str(), "gz+b64"),
        (wrapped.as_str(), "gzip+base64"),
    ];
    for (raw, encoding) in table {
        let keys = BTreeMap::from([
            ("guestinfo.userdata".to_owned(), raw.to_owned()),
            ("guestinfo.userdata.encoding".to_owned(), encoding.to_owned()),
        ]);
        assert_eq!(decode(&keys).unwrap().userdata.unwrap(), b"hello", "{encoding}");
    }
}

#[test]
fn redacted_values_are_no_values() {
    let keys = BTreeMap::from([
        ("guestinfo.userdata".to_owned(), "---".to_owned()),
        ("guestinfo.userdata.encoding".to_owned(), String::new()),
        ("guestinfo.metadata".to_owned(), String::new()),
    ]);
    let decoded = decode(&keys).unwrap();
    assert_eq!((decoded.userdata, decoded.metadata), (None, None));
}

#[test]
fn the_metadata_of_the_seeds_is_read() {
    let raw = "Cmluc3RhbmNlLWlkOiAidGVzdC1jbHVzdGVyLWNvbnRyb2wtcGxhbmUtandzeDciCmxvY2FsLWhvc3RuYW1lOiAidGVzdC1j\
               bHVzdGVyLWNvbnRyb2wtcGxhbmUtandzeDciCgpjb250cm9sUGxhbmVFbmRwb2ludDogIjE5Mi4xNjguMTIzLjM6NjQ0MyIK\
               Cg==";
    let keys = BTreeMap::from([
        ("guestinfo.metadata".to_owned(), raw.to_owned()),
        ("guestinfo.metadata.encoding".to_owned(), "base64".to_owned()),
    ]);
    let metadata = decode(&keys).unwrap().metadata().unwrap();
    assert_eq!(metadata.instance_id, "test-cluster-control-plane-jwsx7");
    assert_eq!(metadata.control_plane_endpoint.as_deref(), Some("192.168.123.3:6443"));
}

#[test]
fn garbled_values_are_named_and_not_quoted() {
    for encoding in ["base64", "gzip+base64"] {
        let keys = BTreeMap::from([
            ("guestinfo.userdata".to_owned(), "top-secret!".to_owned()),
            ("guestinfo.userdata.encoding".to_owned(), encoding.to_owned()),
        ]);
        let error = decode(&keys).unwrap_err().to_string();
        assert!(error.contains("guestinfo.userdata") && !error.contains("top-secret"), "{error}");
    }
    let keys = BTreeMap::from([("guestinfo.metadata".to_owned(), "- no\n- mapping\n".to_owned())]);
    assert!(matches!(decode(&keys).unwrap().metadata(), Err(Error::NotMetadata { .. })));
}

#[test]
fn secrets_are_not_printed() {
    let secret = b"-----BEGIN RSA PRIVATE KEY-----";
    let keys = encode(&node(), secret, Some(secret)).unwrap();
    let shown = format!("{:?} {:?}", redacted(&keys), decode(&keys).unwrap());
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    assert!(!shown.contains(&keys["guestinfo.userdata"]), "{shown}");
    assert!(shown.contains("instance-id"), "{shown}");
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(userdata in proptest::collection::vec(any::<u8>(), 1..4096), name in "[a-z0-9-]{1,63}") {
        let metadata = Metadata::of_node(&name, "vsphere://1");
        let decoded = decode(&encode(&metadata, &userdata, Some(&userdata)).unwrap()).unwrap();
        prop_assert_eq!(decoded.metadata().unwrap(), metadata);
        prop_assert_eq!(decoded.userdata.as_deref(), Some(userdata.as_slice()));
        prop_assert_eq!(decoded.vendordata.as_deref(), Some(userdata.as_slice()));
    }

    #[test]
    fn any_metadata_survives(value in "\\PC{0,64}", key in "[a-z]{3,12}") {
        let mut metadata = node();
        metadata.hostname = Some(value.clone());
        metadata.other.insert(format!("x-{key}"), serde_json::Value::String(value));
        prop_assert_eq!(Metadata::from_yaml(&metadata.to_yaml().unwrap()).unwrap(), metadata);
    }
}
