//! Tests that encoded values are decoded as in cloud-init, and that secrets are never printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounds::{Budget, Exceeded};
use cloudinit::{Error, NodeMetadata, decode, decode_metadata, encode, mapping, redacted, unpacked};
use flate2::Compression;
use flate2::write::GzEncoder;

use proptest::prelude::*;

/// A budget in bytes that suffices for all values except those that are meant to be too large.
const ENOUGH: usize = 4 << 20;

fn enough() -> Budget {
    Budget::new(ENOUGH)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn node() -> NodeMetadata {
    NodeMetadata::of_node(
        "test-cluster-control-plane-jwsx7",
        "vsphere://423697d9-706c-3e92-7514-088978955321",
    )
    .with_control_plane_endpoint("192.168.123.3", 6443)
    .with_virtual_router_of("192.168.123.3")
}

#[test]
fn metadata_is_one_key_a_line() {
    insta::assert_snapshot!(node().to_yaml().unwrap());
}

#[test]
fn all_six_keys_are_there_even_where_there_is_nothing_to_give() {
    let keys = encode(&node(), b"#cloud-config\n", None, &enough()).unwrap();
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
    let keys = encode(&node(), b"#cloud-config\n", None, &enough()).unwrap();
    assert_eq!(keys, encode(&node(), b"#cloud-config\n", None, &enough()).unwrap());
    let packed = STANDARD.decode(&keys["guestinfo.userdata"]).unwrap();
    assert_eq!(packed[4..8], [0; 4], "no time in the gzip header");
    assert_eq!(packed[9], 255, "no operating system in the gzip header");
}

#[test]
fn a_value_no_guest_bears_is_refused_by_its_key() {
    // Incompressible bytes from a linear congruential generator.
    let noise: Vec<u8> = (0..60_000_u32)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_be_bytes()[0])
        })
        .collect();
    let error = encode(&node(), &noise, None, &enough()).unwrap_err();
    let Error::TooLong { key, size, limit } = &error else { panic!("{error}") };
    assert_eq!((*key, *limit), ("guestinfo.userdata", 65_536));
    assert!(*size > 65_536);
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    assert!(encode(&node(), &noise[..40_000], None, &enough()).is_ok());
    assert!(matches!(
        encode(&node(), b"", Some(&noise), &enough()),
        Err(Error::TooLong { key: "guestinfo.vendordata", .. })
    ));
}

#[test]
fn every_encoding_of_the_datasource_is_read() {
    let gzipped = encode(&node(), b"hello", None, &enough()).unwrap()["guestinfo.userdata"].clone();
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
        assert_eq!(decode(&keys, &enough()).unwrap().userdata.unwrap(), b"hello", "{encoding}");
    }
}

#[test]
fn redacted_values_are_no_values() {
    let keys = BTreeMap::from([
        ("guestinfo.userdata".to_owned(), "---".to_owned()),
        ("guestinfo.userdata.encoding".to_owned(), String::new()),
        ("guestinfo.metadata".to_owned(), String::new()),
    ]);
    let decoded = decode(&keys, &enough()).unwrap();
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
    let metadata = decode(&keys, &enough()).unwrap().metadata(&enough()).unwrap();
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
        let error = decode(&keys, &enough()).unwrap_err().to_string();
        assert!(error.contains("guestinfo.userdata") && !error.contains("top-secret"), "{error}");
    }
    let keys = BTreeMap::from([("guestinfo.metadata".to_owned(), "- no\n- mapping\n".to_owned())]);
    assert!(matches!(decode(&keys, &enough()).unwrap().metadata(&enough()), Err(Error::NotMetadata { .. })));
}

#[test]
fn secrets_are_not_printed() {
    let secret = b"-----BEGIN RSA PRIVATE KEY-----";
    let keys = encode(&node(), secret, Some(secret), &enough()).unwrap();
    let shown = format!("{:?} {:?}", redacted(&keys, &enough()), decode(&keys, &enough()).unwrap());
    assert!(!shown.contains("PRIVATE KEY"), "{shown}");
    assert!(!shown.contains(&keys["guestinfo.userdata"]), "{shown}");
    assert!(shown.contains("instance-id"), "{shown}");
}

#[test]
fn what_grows_when_it_is_unpacked_is_counted() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 128 * 1024);
    let exceeded = Error::Exceeded(Exceeded::Bytes { limit: ENOUGH });
    assert_eq!(unpacked(&bomb, &enough()), Err(exceeded.clone()));
    assert_eq!(unpacked(STANDARD.encode(&bomb).as_bytes(), &enough()), Err(exceeded.clone()));
    for key in ["guestinfo.metadata", "guestinfo.userdata", "guestinfo.vendordata"] {
        let keys = BTreeMap::from([
            (key.to_owned(), STANDARD.encode(&bomb)),
            (format!("{key}.encoding"), "gzip+base64".to_owned()),
        ]);
        assert_eq!(decode(&keys, &enough()), Err(exceeded.clone()));
    }
    let (once, budget) = (gzip(&vec![b'x'; 1 << 20]), enough());
    assert!((0..3).all(|_| unpacked(&once, &budget).is_ok()));
    assert_eq!(unpacked(&once, &budget), Err(exceeded), "the sum of all keys is counted");
}

#[test]
fn metadata_with_aliases_is_refused() {
    let text = format!("a0: &a \"{}\"\ninstance-id: x\nb: [{}]", "x".repeat(100_000), "*a,".repeat(1000));
    assert!(matches!(NodeMetadata::from_yaml(&text, &enough()), Err(Error::NotMetadata { .. })));
    let error = mapping(&text, &enough()).unwrap_err().to_string();
    assert!(error.starts_with("is not a YAML mapping: it has an anchor or an alias"), "{error}");
    assert!(!error.contains('x'), "{error}");
    let nodes = format!("a: [{}]", "{},".repeat(100_000));
    assert_eq!(mapping(&nodes, &enough()), Err(Error::Exceeded(Exceeded::Bytes { limit: ENOUGH })));
}

proptest! {
    /// Arbitrary guestinfo is decoded or rejected within the budget.
    #[test]
    fn whatever_the_keys_hold_they_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), packs in any::<bool>(), wraps in any::<bool>(),
        encoding in proptest::sample::select(&["", "base64", "gzip+base64"][..]),
    ) {
        let packed = if packs { gzip(&bytes) } else { bytes };
        let value = if wraps { STANDARD.encode(&packed) } else { String::from_utf8_lossy(&packed).into_owned() };
        let keys = BTreeMap::from([
            ("guestinfo.metadata".to_owned(), value),
            ("guestinfo.metadata.encoding".to_owned(), encoding.to_owned()),
        ]);
        let budget = Budget::new(64 * 1024);
        let _ = decode_metadata(&keys, &budget);
        let _ = (redacted(&keys, &budget), unpacked(&packed, &budget));
    }

    #[test]
    fn what_was_encoded_is_decoded(userdata in proptest::collection::vec(any::<u8>(), 1..4096), name in "[a-z0-9-]{1,63}") {
        let metadata = NodeMetadata::of_node(&name, "vsphere://1");
        let decoded = decode(&encode(&metadata, &userdata, Some(&userdata), &enough()).unwrap(), &enough()).unwrap();
        prop_assert_eq!(decoded.metadata(&enough()).unwrap(), metadata);
        prop_assert_eq!(decoded.userdata.as_deref(), Some(userdata.as_slice()));
        prop_assert_eq!(decoded.vendordata.as_deref(), Some(userdata.as_slice()));
    }

    #[test]
    fn any_metadata_survives(value in "\\PC{0,64}", key in "[a-z]{3,12}") {
        let mut metadata = node();
        metadata.hostname = Some(value.clone());
        metadata.other.insert(format!("x-{key}"), serde_json::Value::String(value));
        prop_assert_eq!(NodeMetadata::from_yaml(&metadata.to_yaml().unwrap(), &enough()).unwrap(), metadata);
    }
}
