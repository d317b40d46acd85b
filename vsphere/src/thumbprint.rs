//! Certificate thumbprints and their text forms.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A certificate's SHA-256 thumbprint, displayed as `AB:CD:…`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thumbprint([u8; 32]);

impl Thumbprint {
    /// Computes the thumbprint of a DER certificate.
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reasons why a string isn't a thumbprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThumbprintError {
    /// The string is a SHA-1 thumbprint, which isn't secure.
    #[error("a SHA-1 thumbprint is not enough; give the SHA-256 one (64 hexadecimal digits)")]
    Sha1,
    /// The string doesn't consist of 64 hexadecimal digits.
    #[error("a thumbprint has 64 hexadecimal digits, with or without colons")]
    Malformed,
}

impl FromStr for Thumbprint {
    type Err = ThumbprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let text =
            text.get(..7).filter(|head| head.eq_ignore_ascii_case("sha256:")).map_or(text, |_| &text[7..]);
        let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b':' | b' ')).collect();
        if digits.len() == 40 && digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(ThumbprintError::Sha1);
        }
        if digits.len() != 64 {
            return Err(ThumbprintError::Malformed);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble =
                |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            match (nibble(pair[0]), nibble(pair[1])) {
                (Some(high), Some(low)) => *byte = high << 4 | low,
                _ => return Err(ThumbprintError::Malformed),
            }
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbprints_are_read_as_people_write_them() {
        let thumbprint = Thumbprint::of(b"abc");
        let text = thumbprint.to_string();
        assert!(text.starts_with("BA:78:16:BF") && text.len() == 95, "{text}");
        let plain: String = text.to_lowercase().replace(':', "");
        for form in [text.clone(), plain.clone(), format!("SHA256:{plain}"), format!(" {text}\n")] {
            assert_eq!(form.parse(), Ok(thumbprint), "{form}");
        }
        let refused = [
            ("", ThumbprintError::Malformed),
            ("AB:CD", ThumbprintError::Malformed),
            (&"zz".repeat(32), ThumbprintError::Malformed),
            (&"ab".repeat(20), ThumbprintError::Sha1),
            ("é", ThumbprintError::Malformed),
        ];
        for (form, error) in refused {
            assert_eq!(form.parse::<Thumbprint>(), Err(error), "{form}");
        }
    }
}
