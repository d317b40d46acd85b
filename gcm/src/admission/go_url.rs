//! Parses a proxy URL like Go's `net/url`, the parser that containerd and the kubelet use.
//!
//! Accepts only URLs that other programs interpret in the same way: with a scheme and a plain host, and without a path, query
//! or fragment.

use std::net::Ipv6Addr;

/// A parsed proxy URL. The user and the password are percent-decoded.
#[derive(PartialEq, Eq)]
pub struct ProxyUrl<'a> {
    /// The host and, if set, the port, as `HOST:PORT`.
    pub host: &'a str,
    /// The user name, or empty.
    pub user: Vec<u8>,
    /// The password, or empty.
    pub password: Vec<u8>,
}

/// The remedy for special characters in the user or password.
const ENCODED: &str = "Write special characters of the user and the password percent-encoded: \\ as %5C, % as %25, # as %23, / as %2F, \
                       ? as %3F, \" as %22, ^ as %5E, | as %7C, { as %7B, } as %7D, ä as %C3%A4";
/// The remedy for a malformed URL.
const SHAPE: &str = "Write http://user:password@address:port";

/// The fault of a proxy URL and the remedy. Neither quotes the URL, which can contain a password.
#[derive(Debug, PartialEq, Eq)]
pub struct UrlFault {
    /// The reason, as `it …`.
    pub reason: &'static str,
    pub remedy: &'static str,
}

impl UrlFault {
    fn shape(reason: &'static str) -> Self {
        Self { reason, remedy: SHAPE }
    }

    fn encoding(reason: &'static str) -> Self {
        Self { reason, remedy: ENCODED }
    }
}

/// Parses a proxy URL.
///
/// # Errors
/// Returns the fault if Go or another program on a node would refuse the URL or interpret it differently.
pub fn parse(text: &str) -> Result<ProxyUrl<'_>, UrlFault> {
    if text.contains(['<', '>']) {
        return Err(UrlFault::shape("it still contains placeholders in angle brackets"));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(UrlFault::shape("it contains a blank or a line break, perhaps at its end"));
    }
    let rest = text
        .split_once("://")
        .filter(|(scheme, _)| ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)));
    let Some((_, rest)) = rest else {
        return Err(UrlFault::shape("it does not begin with http:// or https://"));
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(UrlFault::encoding(
            "it contains /, ? or # after the address, or in the user or the password",
        ));
    }
    let (userinfo, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    check_host(host)?;
    let (user, password) = userinfo.map(read_userinfo).transpose()?.unwrap_or_default();
    Ok(ProxyUrl { host, user, password })
}

fn read_userinfo(text: &str) -> Result<(Vec<u8>, Vec<u8>), UrlFault> {
    let is_valid = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !text.bytes().all(is_valid) {
        return Err(UrlFault::encoding(
            "Go's net/url does not accept a character of the user or the password",
        ));
    }
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let decode = |part| {
        decode(part).ok_or_else(|| {
            UrlFault::encoding("a % of the user or the password is not followed by two hexadecimal digits")
        })
    };
    Ok((decode(user)?, decode(password)?))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    Some(decoded)
}

/// Checks `host` or `host:port`. An IPv6 address must be in brackets, and a port must be between 1 and 65535.
fn check_host(text: &str) -> Result<(), UrlFault> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = bracketed.unwrap_or_else(|| text.split_at(text.find(':').unwrap_or(text.len())));
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if bracketed.is_some() {
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(UrlFault::shape("its host is not an IPv6 address in brackets"));
        }
    } else if host.is_empty() {
        return Err(UrlFault::shape("it has no host"));
    } else if !host.bytes().all(is_plain) {
        return Err(UrlFault::shape("its host is neither a name nor an address"));
    }
    let number = port.strip_prefix(':').and_then(|number| number.parse::<u16>().ok());
    if port.is_empty() || number.is_some_and(|number| number > 0) {
        return Ok(());
    }
    Err(UrlFault::shape("its port is not a number from 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// One URL and how Go parses it, as recorded by `table.go`.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Row {
        text: String,
        ok: bool,
        host: String,
        user: String,
        password: String,
    }

    #[test]
    fn what_go_reads_otherwise_is_refused() {
        let rows: Vec<Row> = serde_json::from_str(include_str!("go_url/table.json")).unwrap();
        assert!(rows.len() > 300);
        let mut stricter = Vec::new();
        for row in rows {
            match parse(&row.text) {
                Ok(read) => {
                    assert!(row.ok, "{} is accepted, but Go does not read it", row.text);
                    let same = read
                        == ProxyUrl { host: &row.host, user: row.user.into(), password: row.password.into() };
                    assert!(same, "{} is read otherwise", row.text);
                }
                Err(_) if row.ok => stricter.push(row.text),
                Err(_) => {}
            }
        }
        insta::assert_debug_snapshot!(stricter);
    }

    #[test]
    fn a_refusal_says_how_to_write_it() {
        for (text, words) in [
            ("http://CORP\\svc:s@p:1", "percent-encoded: \\ as %5C"),
            ("http://u:p\"w@p:1", "\" as %22"),
            ("http://u:%ss@p:1", "% as %25"),
            ("http://u:ä@p:1", "ä as %C3%A4"),
            ("http://u:a#b@p:1", "# as %23"),
            ("http://p:1\n", "http://user:password@address:port"),
        ] {
            let fault = parse(text).err().unwrap();
            assert!(fault.remedy.contains(words), "{text}: {fault:?}");
        }
    }
}
