//! Validates additional trusted certificate authorities (CAs). The data of each CA must be base64-encoded PEM that contains only
//! complete certificates.
//!
//! A node writes the PEM to a world-readable file, so all of it is parsed: if it contained a private key in addition to
//! certificates, the key would be exposed on all nodes.

use api::gcm::parts::{Trust, TrustedCa};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::printable;
use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::denial::FieldDenial;

const TRUST: &str = "spec.settings.network.trust.additionalTrustedCAs";
const BEGIN: &str = "-----BEGIN ";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// The end of every private key's first PEM line.
const KEY: &str = "PRIVATE KEY-----";
/// The prefix that identifies base64-encoded PEM.
const ENCODED_PEM: &str = "LS0tLS1CRUdJTi";
const REMEDY: &str = "Use the output of: base64 -w0 FILE.pem";
const KEY_REMEDY: &str = "Use only certificates, and replace the key pair if others could read this text: it is no secret any more";
const WARNED_REMEDY: &str = "Replace it, or remove it";
/// The maximum number of characters that a message quotes from a name.
const SHOWN: usize = 64;

/// Returns a CA's name without the suffix `.crt`. The names `corp` and `corp.crt` refer to the same file on a node.
pub fn stem(name: &str) -> &str {
    name.trim_end_matches(".crt")
}

/// Decodes base64 data to a string. Ignores white space in the data. Returns `None` if the data isn't base64-encoded UTF-8.
pub fn pem(data: &str) -> Option<String> {
    String::from_utf8(decode(data)?).ok()
}

/// Returns true if a string contains a private key in PEM.
pub fn contains_key(text: &str) -> bool {
    text.contains(KEY)
}

/// Returns true if the data is base64-encoded PEM that contains only complete certificates.
pub fn is_sound(data: &str) -> bool {
    data_fault(data).is_none()
}

/// Returns the denials for CAs. The data of a CA that is unchanged since `old` isn't checked again. Private keys are an
/// exception: [`super::node_text`] denies them in all strings that reach nodes.
pub(super) fn denials(trust: &Trust, old: Option<&Trust>) -> Vec<FieldDenial> {
    let authorities = entries(trust);
    let mut denials = Vec::new();
    for (at, authority) in authorities.iter().enumerate() {
        let field = format!("{TRUST}[{at}]");
        denials.extend(name_denial(&field, &authority.name, &authorities[..at]));
        if old.is_some_and(|old| entries(old).contains(authority)) {
            continue;
        }
        denials.extend(data_fault(&authority.data).map(|Fault { reason, remedy }| {
            let name = printable(&authority.name, SHOWN);
            FieldDenial::new(format!("{field}.data"), format!("authority {name:?}: {reason}"), remedy)
        }));
    }
    denials
}

/// Returns warnings about certificates that nodes accept but that don't work as CAs at the time `now`.
pub(super) fn warnings(trust: &Trust, now: Timestamp) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, TrustedCa { name, data }) in entries(trust).iter().enumerate() {
        let ders = pem(data).and_then(|pem| certificates(&pem).ok()).unwrap_or_default();
        texts.extend(ders.iter().filter_map(|der| doubt(der, now)).map(|doubt| {
            let name = printable(name, SHOWN);
            format!("{TRUST}[{at}].data: authority {name:?}: {doubt}. {WARNED_REMEDY}")
        }));
    }
    texts
}

/// Checks that a string consists of PEM certificates. Returns the fault as a phrase that begins with `contains`, or `None`.
pub(super) fn pem_fault(pem: &str) -> Option<String> {
    certificates(pem).err()
}

fn entries(trust: &Trust) -> &[TrustedCa] {
    trust.additional_trusted_cas.as_deref().unwrap_or_default()
}

fn name_denial(field: &str, name: &str, before: &[TrustedCa]) -> Option<FieldDenial> {
    let field = format!("{field}.name");
    let is_file_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if name.is_empty() || !is_file_name || name.starts_with('.') {
        return Some(FieldDenial::new(
            field,
            format!("{name:?} cannot be the name of a file"),
            "Use letters, digits, '-', '_' and '.'",
        ));
    }
    before.iter().any(|other| stem(&other.name) == stem(name)).then(|| {
        FieldDenial::new(
            field,
            format!("another authority has the name {:?}", stem(name)),
            "Give each authority a unique name",
        )
    })
}

struct Fault {
    reason: String,
    remedy: &'static str,
}

/// Checks base64-encoded PEM. Returns the fault and its remedy.
fn data_fault(data: &str) -> Option<Fault> {
    let fault = |reason: &str, remedy| Some(Fault { reason: reason.to_owned(), remedy });
    if contains_key(data) {
        return fault("it contains a private key", KEY_REMEDY);
    }
    if data.contains(BEGIN) {
        return fault("it is PEM, but the field needs PEM encoded in base64", REMEDY);
    }
    if data.contains("...") {
        return fault("it still contains a placeholder (three dots)", REMEDY);
    }
    let Some(bytes) = decode(data) else { return fault("it is not base64", REMEDY) };
    if bytes.first() == Some(&0x30) {
        return fault(
            "the decoded data is DER, not PEM",
            "Use the output of: openssl x509 -inform der -in FILE.der | base64 -w0",
        );
    }
    let Ok(text) = String::from_utf8(bytes) else { return fault("the decoded data is not text", REMEDY) };
    if contains_key(&text) {
        return fault("it contains a private key", KEY_REMEDY);
    }
    if text.starts_with(ENCODED_PEM) {
        return fault("it is encoded in base64 twice", "Encode it once: base64 -w0 FILE.pem");
    }
    let reason = pem_fault(&text)?;
    Some(Fault { reason: format!("the decoded text {reason}"), remedy: REMEDY })
}

fn decode(data: &str) -> Option<Vec<u8>> {
    let joined: String = data.split_whitespace().collect();
    STANDARD.decode(joined).ok()
}

/// Decodes PEM certificates to DER.
///
/// # Errors
/// Returns the fault if the string doesn't contain certificates, or contains an incomplete block, another kind of block, or
/// other text.
fn certificates(pem: &str) -> Result<Vec<Vec<u8>>, String> {
    if contains_key(pem) {
        return Err("contains a private key".to_owned());
    }
    if !pem.contains(BEGIN) {
        return Err("contains no PEM certificate".to_owned());
    }
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut block: Option<String> = None;
    for line in pem.lines().map(str::trim) {
        let number = found.len() + 1;
        match &mut block {
            None if line.is_empty() => {}
            None if line == CERTIFICATE => block = Some(String::new()),
            None if line.starts_with(BEGIN) => {
                let line = printable(line, SHOWN);
                return Err(format!("contains a block that is not a certificate ({line})"));
            }
            None => return Err("contains text outside of the certificates".to_owned()),
            Some(body) if line == END => {
                found.push(certificate(body).ok_or_else(|| {
                    format!("contains a block that is not a certificate (number {number})")
                })?);
                block = None;
            }
            Some(_) if line.starts_with("-----") => {
                return Err(format!("contains a certificate that is cut off (number {number})"));
            }
            Some(body) => body.push_str(line),
        }
    }
    if block.is_some() {
        return Err(format!("contains a certificate that is cut off (number {})", found.len() + 1));
    }
    Ok(found)
}

/// Decodes the body of a PEM block. Returns `None` if it isn't exactly one certificate.
fn certificate(body: &str) -> Option<Vec<u8>> {
    let der = STANDARD.decode(body).ok()?;
    let is_whole = matches!(X509Certificate::from_der(&der), Ok((rest, _)) if rest.is_empty());
    is_whole.then_some(der)
}

/// Returns the reason why a certificate doesn't work as a CA: it isn't valid at the time `now`, or isn't marked as a CA.
fn doubt(der: &[u8], now: Timestamp) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = printable(&certificate.subject().to_string(), SHOWN);
    let date = |seconds: i64| {
        Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
    };
    let (from, to) =
        (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    if to < now.as_second() {
        return Some(format!("certificate {subject:?} expired at {}", date(to)));
    }
    if from > now.as_second() {
        return Some(format!("certificate {subject:?} is not valid before {}", date(from)));
    }
    let constraints = certificate.basic_constraints().ok().flatten();
    constraints.is_some_and(|constraints| !constraints.value.ca).then(|| {
        format!(
            "certificate {subject:?} is not an authority (CA:FALSE): nodes do not trust certificates that it signed"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHORITY: &str = include_str!("authorities/authority.pem");
    const EXPIRED: &str = include_str!("authorities/expired.pem");
    const SERVER: &str = include_str!("authorities/server.pem");

    fn trust(entries: &[(&str, String)]) -> Trust {
        let entry =
            |(name, data): &(&str, String)| TrustedCa { name: (*name).to_owned(), data: data.clone() };
        Trust { additional_trusted_cas: Some(entries.iter().map(entry).collect()) }
    }

    fn refused(pem: &str) -> String {
        let trust = trust(&[("corp", STANDARD.encode(pem))]);
        denials(&trust, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_certificates_are_accepted_and_nothing_beside_them() {
        for pem in [
            AUTHORITY.to_owned(),
            format!("\n{AUTHORITY}\n\n{SERVER}{EXPIRED}\n"),
            AUTHORITY.replace('\n', "\r\n"),
            AUTHORITY.trim().to_owned(),
        ] {
            assert_eq!(refused(&pem), "", "{pem}");
        }
        let key = |kind: &str| {
            format!("-----BEGIN {kind}PRIVATE KEY-----\nhidden\n-----END {kind}PRIVATE KEY-----\n")
        };
        let cut = AUTHORITY.replace(END, "");
        let short = AUTHORITY.replacen("MIIB", "MIIC", 1);
        for (pem, words) in [
            (key(""), "authority \"corp\": it contains a private key"),
            (format!("{AUTHORITY}{}", key("RSA ")), "it contains a private key. Use only certificates"),
            (format!("{}{AUTHORITY}", key("ENCRYPTED ")), "it contains a private key"),
            (format!("{cut}{}", key("EC ")), "it contains a private key"),
            (cut.clone(), "contains a certificate that is cut off (number 1)"),
            (format!("{AUTHORITY}{cut}{AUTHORITY}"), "cut off (number 2)"),
            (short, "contains a block that is not a certificate (number 1)"),
            (AUTHORITY.replace("\n-----END", "\nAAAA\n-----END"), "is not a certificate (number 1)"),
            (AUTHORITY.replace("CERTIFICATE", "X509 CRL"), "not a certificate (-----BEGIN X509 CRL-----)"),
            (format!("# corp\n{AUTHORITY}"), "contains text outside of the certificates"),
            (format!("{AUTHORITY}hidden"), "contains text outside of the certificates"),
            (String::new(), "contains no PEM certificate"),
            ("hidden".to_owned(), "contains no PEM certificate"),
            (STANDARD.encode(AUTHORITY), "it is encoded in base64 twice"),
        ] {
            let denial = refused(&pem);
            assert!(denial.contains(words) && !denial.contains("hidden"), "{pem}: {denial}");
        }
    }

    #[test]
    fn data_that_is_no_base64_of_pem_says_what_it_is() {
        let der = STANDARD.encode(certificates(AUTHORITY).unwrap().remove(0));
        for (data, words) in [
            (der.as_str(), "openssl x509 -inform der"),
            (AUTHORITY, "it is PEM, but the field needs PEM encoded in base64"),
            ("LS0tLS1C...LS0tCg==", "placeholder"),
            ("not base64!", "it is not base64"),
            ("/////w==", "the decoded data is not text"),
        ] {
            let fault = data_fault(data).map(|fault| format!("{}. {}", fault.reason, fault.remedy)).unwrap();
            assert!(fault.contains(words), "{fault}");
        }
        let lines = STANDARD.encode(AUTHORITY).chars().collect::<Vec<_>>();
        let lines: Vec<String> = lines.chunks(64).map(|line| line.iter().collect()).collect();
        assert!(data_fault(&lines.join("\n")).is_none(), "base64 without -w0");
    }

    #[test]
    fn what_was_stored_before_stays_but_a_key_does_not() {
        let odd = trust(&[("corp", STANDARD.encode(format!("# corp\n{AUTHORITY}")))]);
        assert_eq!(denials(&odd, Some(&odd)), []);
        assert_eq!(denials(&odd, Some(&Trust::default())).len(), 1);
    }

    #[test]
    fn certificates_that_are_no_use_are_warned_of() {
        let trust = trust(&[
            ("good", STANDARD.encode(AUTHORITY)),
            ("others", STANDARD.encode(format!("{EXPIRED}{SERVER}"))),
        ]);
        let at = |time: &str| warnings(&trust, time.parse().unwrap());
        insta::assert_debug_snapshot!(at("2026-11-30T00:00:00Z"));
        assert!(at("2019-01-01T00:00:00Z")[0].contains("is not valid before 2020-01-01T00:00:00Z"));
    }
}
