//! Tests of the provider configuration.

use super::*;

fn data(extra: &[(&str, &str)]) -> BTreeMap<String, String> {
    [("VcPNID", "vc.example.com"), ("Datacenter", "datacenter-2"), ("VcCredsSecretName", "creds")]
        .iter()
        .chain(extra)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn secret() -> BTreeMap<String, Vec<u8>> {
    [("username", "u"), ("password", "p")].map(|(k, v)| (k.to_owned(), v.as_bytes().to_vec())).into()
}

#[test]
fn defaults_are_vm_operators() {
    let data = data(&[]);
    let settings = ConfigData::new("ns", Some(&data)).unwrap().settings(Some(&secret())).unwrap();
    assert_eq!((settings.port, settings.trust, settings.storage_class_required), (443, Trust::Public, false));
    assert_eq!((settings.library, settings.promote_disks), (None, PromoteDisks::Disabled));
}

#[test]
fn only_credentials_are_exchanged_without_a_new_connection() {
    let settings = |extra: &[(&str, &str)], password: &str| {
        let (data, mut secret) = (data(extra), secret());
        secret.insert("password".into(), password.into());
        ConfigData::new("ns", Some(&data)).unwrap().settings(Some(&secret)).unwrap()
    };
    let now = settings(&[], "p");
    assert!(now.differ_in_credentials_only(&settings(&[], "q")));
    assert!(!now.differ_in_credentials_only(&settings(&[], "p")));
    assert!(now.differ_in_credentials_only(&settings(&[("VcCredsSecretName", "others")], "q")));
    assert!(!now.differ_in_credentials_only(&settings(&[("Wire", "soap")], "q")));
}

#[test]
fn a_fingerprint_wins_over_skipping() {
    let data = data(&[("Thumbprint", "aa:bb"), ("InsecureSkipTLSVerify", "true"), ("CAFilePath", "/ca")]);
    let settings = ConfigData::new("ns", Some(&data)).unwrap().settings(Some(&secret())).unwrap();
    assert_eq!(settings.trust, Trust::Thumbprint("aa:bb".into()));
}

#[test]
fn problems_name_object_key_and_remedy() {
    let problem = |data: Option<&BTreeMap<String, String>>, secret: Option<&BTreeMap<String, Vec<u8>>>| {
        ConfigData::new("ns", data).and_then(|map| map.settings(secret)).unwrap_err().to_string()
    };
    let good = data(&[]);
    let bad_port = data(&[("VcPort", "x")]);
    let bad_flag = data(&[("InsecureSkipTLSVerify", "yes")]);
    let bad_wire = data(&[("Wire", "rest")]);
    let bad_mode = data(&[("PromoteDisksMode", "online")]);
    let mut keyless = data(&[]);
    keyless.remove("Datacenter");
    let empty = BTreeMap::new();
    insta::assert_snapshot!(
        [
            problem(None, None),
            problem(Some(&keyless), Some(&secret())),
            problem(Some(&bad_port), Some(&secret())),
            problem(Some(&bad_flag), Some(&secret())),
            problem(Some(&bad_wire), Some(&secret())),
            problem(Some(&bad_mode), Some(&secret())),
            problem(Some(&good), None),
            problem(Some(&good), Some(&empty)),
        ]
        .join("\n")
    );
}

#[test]
fn the_password_is_not_printed() {
    let mut secret = secret();
    secret.insert("password".into(), b"hunter2".to_vec());
    let data = data(&[]);
    let settings = ConfigData::new("ns", Some(&data)).unwrap().settings(Some(&secret)).unwrap();
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn ranges_of_guests_are_a_list_of_cidrs() {
    let ranges = |text: &str| {
        let data = data(&[("GuestAddressRanges", text)]);
        let settings = ConfigData::new("ns", Some(&data)).unwrap().settings(Some(&secret()));
        settings
            .map(|settings| settings.guest_address_ranges.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(ranges(" 10.20.0.0/16, fd00::/64,").unwrap(), ["10.20.0.0/16", "fd00::/64"]);
    assert_eq!(ranges("").unwrap(), Vec::<String>::new(), "nobody answers for what guests say");
    for bad in ["10.20.0.0", "10.20.0.0/40", "a/8", "10.0.0.0/8 10.1.0.0/16"] {
        let problem = ranges(bad).unwrap_err().to_string();
        assert!(problem.contains("GuestAddressRanges") && problem.contains(bad), "{problem}");
    }
}
