//! Tests which strings the scrubber removes and keeps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::bundle::scrub::Scrubber;
use crate::bundle::secret_values::SecretValues;

fn scrubber(secrets: &[&str]) -> Scrubber {
    let mut values = SecretValues::default();
    for secret in secrets {
        values.add(secret.as_bytes(), &["the-namespace"]);
    }
    Scrubber::new(&values).unwrap()
}

/// A string, the part that must be removed, and the part that must remain.
const SHAPES: &[(&str, &str, &str)] = &[
    ("key: -----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nnext", "MIIabc", "next"),
    ("-----BEGIN EC PRIVATE KEY-----\nMIIcut off", "MIIcut", ""),
    ("MHcCAQEEIIrYSSNQFaA2\nHwf1duRSxKtL=\n-----END EC PRIVATE KEY-----\nnext", "Hwf1du", "next"),
    ("a\\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSx\\nKtLq==\\n-----END EC PRIVATE KEY-----", "KtLq", "a"),
    ("x eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0abc.c2lnbmF0dXJl y", "eyJzdWIi", "x "),
    ("Authorization: Bearer abcdefghij.klmnop", "klmnop", "Authorization"),
    ("{\"authorization\":\"Basic YWJjOmRlZg==\"}", "YWJjOmRlZg", "authorization"),
    ("sent bearer 0123456789abcdef0 to it", "0123456789abcdef0", "to it"),
    ("Cookie: vmware_soap_session=\"d2a63c0e\"; Path=/", "d2a63c0e", "Cookie"),
    ("vmware-api-session-id: b00db39f948d13ea1e59b4d6fce56389", "b00db39f", "vmware-api-session-id"),
    ("vmware_soap_session=d2a63c0e3fbb", "d2a63c0e", "vmware_soap_session"),
    ("logged in, session 52bca1b5-8a3f-9d3e-1b70-0a8a6cb3a7a9 of root", "52bca1b5", "of root"),
    ("ticket cst-VCT-52c6e9b8-1234-tp-aa", "52c6e9b8", "ticket"),
    ("wss://esx-1:443/ticket/6e7b8c9d0a", "6e7b8c9d0a", "wss://esx-1:443"),
    ("kubeadm join --token abcdef.0123456789abcdef --discovery", "0123456789abcdef", "--discovery"),
    ("the token abcdef.0123456789abcdef was refused", "0123456789abcdef", "was refused"),
    ("https://ann:s3cret@vcenter.test/sdk is down", "s3cret", "vcenter.test/sdk is down"),
    ("https://ann:s3/cr+et@vcenter.test/sdk", "cr+et", "vcenter.test/sdk"),
    ("https://token1234@git.test/x", "token1234", "git.test/x"),
    ("--certificate-key e6a2eb8581237ab72a4f494f30285ec1", "e6a2eb85", "--certificate-key"),
    ("login with password=hunter22, user=ann", "hunter22", "user=ann"),
    ("{\"password\": \"hunter\\\" 22\", \"user\": \"ann\"}", "22", "\"user\": \"ann\""),
    ("{\\\"password\\\":\\\"hunter22\\\",\\\"user\\\":\\\"ann\\\"}", "hunter22", "ann"),
    ("<password>hunter22</password><userName>ann</userName>", "hunter22", "ann"),
    ("VCENTER_PASSWORD=hunter22 cmd", "hunter22", "cmd"),
    ("bootstrap_token: hunter22\nnext: 1", "hunter22", "next: 1"),
    ("client-key-data: LS0tLS1CRUdJTg==", "LS0tLS1CRUdJTg", "client-key-data"),
    ("guestinfo.userdata=H4sIAAAA gone", "H4sIAAAA", "gone"),
    (
        "x\n#cloud-config\nusers:\n- name: ann\n  passwd: x9y8z7\n\nruncmd: [a]\n2026-01-01 next",
        "ann",
        "2026-01-01 next",
    ),
    ("root:$6$salt$abcdefghijkl:1", "abcdefghijkl", "root:"),
    ("AGE-SECRET-KEY-1QQQQQQQQQ", "QQQQ", ""),
    ("key e6a2eb8581237ab72a4f494f30285ec12a9694c6750b9353a83afcbbbbbbbbbb end", "e6a2eb8581237", "end"),
    (
        "got QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0NTY3ODk= end",
        "QUJDREVG",
        "end",
    ),
];

#[test]
fn what_looks_like_a_secret_is_taken_out() {
    let scrubber = scrubber(&[]);
    for (text, secret, kept) in SHAPES {
        let out = scrubber.text(text);
        assert!(!out.text.contains(secret), "{text}: {}", out.text);
        assert!(out.text.contains(kept), "{text}: {}", out.text);
        assert_eq!(scrubber.text(&out.text).text, out.text, "once is enough");
        assert!(!out.counts.is_empty(), "{text}");
    }
}

/// Strings that support needs and that aren't secret.
const KEPT: &[&str] = &[
    "VirtualMachine ns/cp-0: cannot power on: insufficient memory in resource pool test-cluster",
    "image registry.test/pause@sha256:e6a2eb8581237ab72a4f494f30285ec12a9694c6750b9353a83afcbbbbbbbbbb",
    "secretName: test-cluster-bootstrap, dataSecretName: test-cluster-x7k2p",
    "Secret dev/credentials has no key password",
    "providerID vsphere://4221a1b5-8a3f-9d3e-1b70-0a8a6cb3a7a9",
    "GET https://vcenter.test:443/sdk/vim25/8.0.3.0/SessionManager answered 503",
    "2026-11-22T11:14:58.123456Z  INFO vmop::virtualmachine: reconciled object=dev/cp-0 generation=3",
    "basic authentication is not supported by this vCenter",
    "node test-cluster-control-plane-x7k2p-0123456789-abcdefghij-klmnopqrst-uvwxyz joined",
    "/apis/infrastructure.cluster.vmware.com/v1beta2/namespaces/dev/wcpmachines?limit=500&resourceVersion=1234",
];

#[test]
fn what_a_supporter_needs_stays() {
    let scrubber = scrubber(&[]);
    for text in KEPT {
        assert_eq!(scrubber.text(text).text, *text);
    }
}

#[test]
fn values_of_secrets_are_found_in_any_form() {
    let userdata = "#!/bin/sh\nan ordinary but long line of bootstrap data\ntoken: secretly-showed\nend\n";
    let kubeconfig = "{\"users\":[{\"user\":{\"client-key-data\":\"Zm9vYmFyYmF6\"}}]}";
    let scrubber = scrubber(&[
        "two\"words \\ ?",
        "correct horse",
        "b4t",
        "pw12",
        "443",
        "true",
        "the-namespace",
        userdata,
        kubeconfig,
    ]);
    let encoded = STANDARD.encode("correct horse");
    for text in [
        "showed correct horse aloud",
        &format!("showed {encoded} aloud"),
        "showed pw12 aloud",
        "showed two\\\"words \\\\ ? aloud",
        "showed an ordinary but long line of bootstrap data aloud",
        "showed secretly-showed aloud",
        "showed Zm9vYmFyYmF6 aloud",
    ] {
        let out = scrubber.text(text);
        assert_eq!(out.text, "showed [scrubbed: value of a Secret] aloud");
        assert_eq!(out.counts.values().sum::<usize>(), 1);
    }
    for text in ["port 443 is true in the-namespace", "spw123 is a part of a word", "b4t is too short"] {
        assert_eq!(scrubber.text(text).text, text);
    }
}

#[test]
fn objects_keep_their_form() {
    let object = json!({"a": ["say pw1234", 7, 123_456_789], "pw1234": {"password": "x: y"}, "n": null});
    let scrubbed = scrubber(&["pw1234", "123456789"]).object(object).unwrap();
    let read: serde_json::Value = serde_saphyr::from_str(&scrubbed.text).unwrap();
    let marker = "[scrubbed: value of a Secret]";
    let expected =
        json!({"a": [format!("say {marker}"), 7, marker], marker: {"password": "x: y"}, "n": null});
    assert_eq!(read, expected, "{}", scrubbed.text);
}

#[test]
fn debug_output_of_secret_values_contains_none_of_them() {
    let mut values = SecretValues::default();
    values.add(b"hunter2-hunter2", &[]);
    let text = format!("{values:?}");
    assert!(!values.is_empty() && !text.contains("hunter2") && !text.contains("aHVudGVy"), "{text}");
}
