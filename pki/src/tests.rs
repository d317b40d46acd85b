use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;

use super::*;

/// An EC key in SEC 1 format, as `openssl ecparam -genkey` writes it.
const SEC1: &str = include_str!("tests/sec1.pem");
/// A certificate for [`SEC1`], as `openssl req -x509` writes it.
const SEC1_CERTIFICATE: &str = include_str!("tests/sec1.crt");
/// An RSA key in PKCS#1 format, as kubeadm writes it.
const PKCS1: &str = include_str!("tests/pkcs1.pem");
/// A certificate for [`PKCS1`].
const PKCS1_CERTIFICATE: &str = include_str!("tests/pkcs1.crt");

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

fn validity() -> Validity {
    Validity::new(now(), Duration::days(10))
}

fn hosts() -> [String; 2] {
    ["hook.ns.svc".to_owned(), "192.0.2.1".to_owned()]
}

/// Returns true if a client that trusts the CA accepts the server certificate for this host at this time.
fn is_accepted(authority: &Authority, pair: &Pair, host: &str, when: OffsetDateTime) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let when = std::time::Duration::from_secs(when.unix_timestamp().try_into().unwrap());
    rustls::client::danger::ServerCertVerifier::verify_server_cert(
        &*verifier,
        &CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap(),
        &[],
        &ServerName::try_from(host).unwrap(),
        &[],
        UnixTime::since_unix_epoch(when),
    )
    .is_ok()
}

fn inspect(pem: &str, check: impl FnOnce(&X509Certificate<'_>)) {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    check(&parse_x509_certificate(&der).unwrap().1);
}

#[test]
fn a_server_certificate_is_accepted_for_its_hosts_while_it_is_valid() {
    let authority = Authority::generate("ca", validity()).unwrap();
    let pair = authority.issue(&Subject::server("hook", &hosts()), validity()).unwrap();
    for (host, days, expected) in [
        ("hook.ns.svc", 1, true),
        ("192.0.2.1", 1, true),
        ("other.ns.svc", 1, false),
        ("hook.ns.svc", 11, false),
        ("hook.ns.svc", -1, false),
    ] {
        let when = now() + Duration::days(days);
        assert_eq!(is_accepted(&authority, &pair, host, when), expected, "{host} after {days} days");
    }
    assert!(is_accepted(&authority, &pair, "hook.ns.svc", now() - Duration::minutes(59)), "backdated");
    let other = Authority::generate("ca", validity()).unwrap();
    assert!(!is_accepted(&other, &pair, "hook.ns.svc", now()), "another CA with the same name");
    assert_eq!(expiry(&pair.certificate), Some(now() + Duration::days(10)));
    assert_eq!(expiry("nothing"), None);
}

#[test]
fn certificates_state_their_subject_and_usages() {
    let authority = Authority::generate("ca", validity()).unwrap();
    inspect(authority.certificate(), |ca| {
        assert_eq!(ca.subject().to_string(), "CN=ca");
        let constraints = ca.basic_constraints().unwrap().unwrap();
        assert_eq!((constraints.value.ca, constraints.value.path_len_constraint), (true, Some(0)));
        assert_eq!(ca.key_usage().unwrap().unwrap().value.to_string(), "Digital Signature, Key Cert Sign");
    });
    let roles = |subject: &Subject| {
        let mut roles = (false, false);
        let pair = authority.issue(subject, validity()).unwrap();
        inspect(&pair.certificate, |certificate| {
            let usage = certificate.extended_key_usage().unwrap().unwrap();
            roles = (usage.value.server_auth, usage.value.client_auth);
            assert!(!certificate.is_ca());
        });
        roles
    };
    assert_eq!(roles(&Subject::server("a", &hosts())), (true, false));
    assert_eq!(roles(&Subject::client("a", &[])), (false, true));
    assert_eq!(roles(&Subject::peer("a", &hosts())), (true, true));
    let admin = Subject::client(&"ä".repeat(65), &["system:masters"]);
    inspect(&authority.issue(&admin, validity()).unwrap().certificate, |certificate| {
        let expected = format!("CN={}, O=system:masters", "ä".repeat(64));
        assert_eq!(certificate.subject().to_string(), expected);
    });
    let (request, key) = admin.request().unwrap();
    assert!(request.starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
    assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
}

#[test]
fn an_authority_is_read_back_with_a_key_in_any_format() {
    let made = Authority::generate("ca", validity()).unwrap();
    let pair = made.pair();
    for (certificate, key) in
        [(pair.certificate.as_str(), pair.key.as_str()), (SEC1_CERTIFICATE, SEC1), (PKCS1_CERTIFICATE, PKCS1)]
    {
        let authority = Authority::from_pem(certificate, key).unwrap();
        assert_eq!((authority.certificate(), authority.pair().key.as_str()), (certificate, key));
        let leaf = authority.issue(&Subject::server("hook", &hosts()), validity()).unwrap();
        assert!(is_accepted(&authority, &leaf, "hook.ns.svc", now()));
    }
}

#[test]
fn unusable_parts_are_named() {
    let one = Authority::generate("ca", validity()).unwrap();
    let other = Authority::generate("ca", validity()).unwrap();
    let read = |certificate: &str, key: &str| Authority::from_pem(certificate, key).map(drop).unwrap_err();
    let (certificate, key) = (one.certificate(), one.pair().key.as_str());
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(read("no PEM", key), Error::Certificate));
    assert!(matches!(read(&certificate.replace("MII", "AAA"), key), Error::Certificate));
    assert!(matches!(read(certificate, ""), Error::Key));
    assert!(matches!(read(certificate, broken), Error::Key));
    assert!(matches!(read(certificate, &other.pair().key), Error::Mismatch));
    assert!(matches!(one.issue(&Subject::server("a", &["ä"]), validity()), Err(Error::Sign(_))));
}

/// The annotated type is the actual check: keys of type `Zeroizing` are wiped on drop.
#[test]
fn private_keys_are_wiped_from_memory() {
    let Pair { certificate: _, key } = Authority::generate("ca", validity()).unwrap().pair().clone();
    let (public, private) = generate_key().unwrap();
    let keys: [Zeroizing<String>; 2] = [key, private];
    assert!(keys.iter().all(|key| key.starts_with("-----BEGIN PRIVATE KEY-----")));
    assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"));
    assert_ne!(public_key(&keys[0]).unwrap(), public_key(&keys[1]).unwrap());
}
