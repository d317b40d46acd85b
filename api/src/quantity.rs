//! Kubernetes quantities, parsed as leniently as in the API server.
//!
//! The type in `k8s-openapi` accepts only strings, but `memory: 0` and `cpu: 2` are valid and common in manifests, and
//! the API server stores them as numbers.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// An amount with an optional suffix, such as `4Gi`, `500m` or `2`.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

/// The error for a text that isn't a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: write a number with an optional suffix, such as 4Gi, 500m or 2")]
pub struct NotAQuantity(pub String);

impl Quantity {
    /// Returns the amount in thousandths, rounded up: 1000 for `1`, and 500 for `500m`.
    pub fn millis(&self) -> Result<i128, NotAQuantity> {
        parse_millis(self.0.trim()).ok_or_else(|| NotAQuantity(self.0.clone()))
    }

    /// Returns the whole amount, rounded up: bytes for memory and disks, cores for CPUs.
    pub fn value(&self) -> Result<i128, NotAQuantity> {
        Ok(div_up(self.millis()?, 1000))
    }

    /// Returns the amount in MiB, rounded up, because vSphere measures memory in MiB.
    pub fn mib(&self) -> Result<i64, NotAQuantity> {
        let mib = div_up(self.millis()?, 1000 * 1024 * 1024);
        i64::try_from(mib).map_err(|_| NotAQuantity(self.0.clone()))
    }
}

fn div_up(amount: i128, by: i128) -> i128 {
    amount.div_euclid(by) + i128::from(amount.rem_euclid(by) != 0)
}

fn parse_millis(text: &str) -> Option<i128> {
    let digits_end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || (*at == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(digits_end);
    let (negative, number) = match number.strip_prefix(['+', '-']) {
        Some(rest) => (number.starts_with('-'), rest),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, divisor) = scale_of(suffix)?;
    let mut mantissa: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let mut divisor = divisor;
    for _ in fraction.chars() {
        divisor = divisor.checked_mul(10)?;
    }
    let scaled = mantissa.checked_mul(factor)?.checked_mul(1000)?;
    let millis = div_up(scaled, divisor);
    Some(if negative { -millis } else { millis })
}

/// Returns the multiplier and divisor of a suffix.
fn scale_of(suffix: &str) -> Option<(i128, i128)> {
    let power = |base: i128, exponent: u32| base.checked_pow(exponent);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (power(1000, 1)?, 1),
        "M" => (power(1000, 2)?, 1),
        "G" => (power(1000, 3)?, 1),
        "T" => (power(1000, 4)?, 1),
        "P" => (power(1000, 5)?, 1),
        "E" => (power(1000, 6)?, 1),
        "Ki" => (power(1024, 1)?, 1),
        "Mi" => (power(1024, 2)?, 1),
        "Gi" => (power(1024, 3)?, 1),
        "Ti" => (power(1024, 4)?, 1),
        "Pi" => (power(1024, 5)?, 1),
        "Ei" => (power(1024, 6)?, 1),
        exponent => {
            let exponent: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let scale = power(10, exponent.unsigned_abs())?;
            if exponent < 0 { (1, scale) } else { (scale, 1) }
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;

        impl de::Visitor<'_> for TextOrNumber {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, such as 4Gi")
            }

            fn visit_str<E>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }

        deserializer.deserialize_any(TextOrNumber)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_kubernetes() {
        let table = [
            ("0", 0),
            ("2", 2000),
            ("500m", 500),
            ("1.5", 1500),
            (".5", 500),
            ("1Ki", 1_024_000),
            ("4Gi", 4 * 1024 * 1024 * 1024 * 1000),
            ("1e3", 1_000_000),
            ("1E", 1_000_000_000_000_000_000_000),
            ("100n", 1),
            ("-1", -1000),
            ("+1k", 1_000_000),
        ];
        for (text, millis) in table {
            assert_eq!(Quantity::from(text).millis(), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "Gi", "4GB", "4 Gi", "1.2.3", "--1", "1e", "ten", "1e99"] {
            assert!(Quantity::from(text).millis().is_err(), "{text}");
        }
    }

    #[test]
    fn memory_is_rounded_up_to_mib() {
        assert_eq!(Quantity::from("2Gi").mib(), Ok(2048));
        assert_eq!(Quantity::from("1").mib(), Ok(1));
        assert_eq!(Quantity::from("0").mib(), Ok(0));
    }

    #[test]
    fn numbers_are_read_like_strings() {
        let read: Vec<Quantity> = serde_json::from_str(r#"[0, "4Gi", 2, 0.5]"#).unwrap();
        let texts: Vec<_> = read.iter().map(|q| q.0.as_str()).collect();
        assert_eq!(texts, ["0", "4Gi", "2", "0.5"]);
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }
}
