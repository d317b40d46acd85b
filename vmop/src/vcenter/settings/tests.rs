//! Tests for the provider configuration.

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

fn settings(
    extra: &[(&str, &str)],
    secret: &BTreeMap<String, Vec<u8>>,
) -> Result<ProviderSettings, ConfigProblem> {
    ConfigData::new("ns", Some(&data(extra)))?.settings(Some(secret))
}

#[test]
fn defaults_are_vm_operators() {
    let settings = settings(&[], &secret()).unwrap();
    assert_eq!(
        (settings.port, settings.trust, settings.storage_class_required),
        (443, CertificateTrust::System, false)
    );
    assert_eq!((settings.library, settings.promote_disks), (None, PromoteDisks::Disabled));
}

#[test]
fn a_vcenter_is_named_by_its_host_alone() {
    for host in ["vc.example.com", "vc-1", "10.0.0.1", "fd00::1", "[fd00::1]"] {
        assert_eq!(settings(&[("VcPNID", host)], &secret()).unwrap().host, host);
    }
    for host in ["https://vc.example.com", "vc.example.com:443", "https://[fd00::1]/sdk", "vc/sdk", "a b"] {
        let problem = settings(&[("VcPNID", host)], &secret()).unwrap_err().to_string();
        assert!(problem.contains("VcPNID") && problem.ends_with("put the port into VcPort"), "{problem}");
    }
}

#[test]
fn the_line_end_of_an_editor_is_no_part_of_a_credential() {
    let secret = [("username", "u\n"), ("password", " p \r\n")];
    let secret = secret.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into();
    let read = settings(&[], &secret).unwrap();
    assert_eq!(read.username, "u");
    assert!(read.password == " p ".into(), "only line ends are dropped");
    let blank = [("username", "u"), ("password", "\n")];
    let blank = blank.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into();
    assert!(matches!(settings(&[], &blank), Err(ConfigProblem::NoCredential(..))));
}

#[test]
fn only_credentials_are_exchanged_without_a_new_connection() {
    let with = |extra: &[(&str, &str)], password: &str| {
        let mut secret = secret();
        secret.insert("password".into(), password.into());
        settings(extra, &secret).unwrap()
    };
    let now = with(&[], "p");
    assert!(now.differ_in_credentials_only(&with(&[], "q")));
    assert!(!now.differ_in_credentials_only(&with(&[], "p")));
    assert!(now.differ_in_credentials_only(&with(&[("VcCredsSecretName", "others")], "q")));
    assert!(!now.differ_in_credentials_only(&with(&[("Wire", "soap")], "q")));
}

#[test]
fn the_strictest_way_to_verify_the_certificate_is_used() {
    let (thumbprint, ca_file) = (("Thumbprint", "aa:bb"), ("CAFilePath", "/ca"));
    let trust = |given: &[(&str, &str)]| settings(given, &secret()).map(|settings| settings.trust);
    assert_eq!(trust(&[thumbprint, ca_file]).unwrap(), CertificateTrust::Thumbprint("aa:bb".into()));
    assert_eq!(
        trust(&[ca_file, ("InsecureSkipTLSVerify", "false")]).unwrap(),
        CertificateTrust::CaFile("/ca".into())
    );
    let insecure = ("InsecureSkipTLSVerify", "true");
    assert_eq!(trust(&[insecure]).unwrap(), CertificateTrust::Insecure);
    for verified in [thumbprint, ca_file] {
        let problem = trust(&[verified, insecure]).unwrap_err().to_string();
        assert!(
            problem.contains(verified.0) && problem.ends_with("Remove InsecureSkipTLSVerify"),
            "{problem}"
        );
    }
}

#[test]
fn problems_name_object_key_and_remedy() {
    let problem = |data: Option<&BTreeMap<String, String>>, secret: Option<&BTreeMap<String, Vec<u8>>>| {
        ConfigData::new("ns", data).and_then(|map| map.settings(secret)).unwrap_err().to_string()
    };
    let bad = |key: &str, value: &str| settings(&[(key, value)], &secret()).unwrap_err().to_string();
    let good = data(&[]);
    let mut keyless = data(&[]);
    keyless.remove("Datacenter");
    let empty = BTreeMap::new();
    insta::assert_snapshot!(
        [
            problem(None, None),
            problem(Some(&keyless), Some(&secret())),
            bad("VcPort", "x"),
            bad("InsecureSkipTLSVerify", "yes"),
            bad("Wire", "rest"),
            bad("PromoteDisksMode", "online"),
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
    let settings = settings(&[], &secret).unwrap();
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn ranges_of_guests_are_a_list_of_cidrs() {
    let ranges = |text: &str| {
        let settings = settings(&[("GuestAddressRanges", text)], &secret());
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
