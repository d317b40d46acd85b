//! Lists that keep only their first items.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// The first `N` items in a list. The others are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Few<T, const N: usize>(pub Vec<T>);

impl<T, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const N: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
            type Value = Few<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Few::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut few = Few::default();
                while few.0.len() < N {
                    let Some(item) = items.next_element()? else { return Ok(few) };
                    few.0.push(item);
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(few)
            }
        }

        deserializer.deserialize_any(Items(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_end_becomes_a_few() {
        let many = format!("[{}0]", "0,".repeat(100_000));
        let few: Few<u8, 3> = serde_json::from_str(&many).unwrap();
        assert_eq!(few.0, [0, 0, 0]);
        assert_eq!(serde_json::from_str::<Few<u8, 3>>("null").unwrap(), Few::default());
    }
}
