//! Collects responses within limits, and decodes them into types that keep only the required fields.
//!
//! In a type for arbitrary documents, a value that is one byte of JSON takes tens of bytes. So this module doesn't have such
//! a type: it keeps strings that a reader names, and lists up to a fixed length. Everything else is skipped while it is read.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::error::{ApiRejection, GuestError};
use crate::bounded::{ComputationLimits, Exceeded, compute};
use crate::share::responses::{HeldBytes, ResponseLimits};

/// Responses up to this size in bytes are decoded on the current thread, which costs less than moving them to another thread.
const SMALL: usize = 32 << 10;
/// The timeout for decoding a large response.
const DECODING: Duration = Duration::from_secs(5);
/// The maximum size of a short string in bytes, such as a name or a version.
const LONGEST_WORD: usize = 512;
/// The maximum size of a label or annotation value in bytes. Longer values aren't kept.
const LONGEST_MARK: usize = 16 << 10;

/// Collects a response body. Fails if it has more than `most` bytes. The bytes count against `limits` while the returned [`HeldBytes`] lives.
pub(super) async fn collect<B>(
    body: B,
    most: usize,
    limits: &ResponseLimits,
) -> Result<(Vec<u8>, HeldBytes), GuestError>
where
    B: Body<Data = Bytes>,
    B::Error: Error + 'static,
{
    let (mut bytes, mut held) = (Vec::new(), HeldBytes::default());
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| GuestError::unreachable(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > most {
            return Err(ApiRejection::too_large(most).into());
        }
        limits.take(data.len(), &mut held).await;
        bytes.reserve_exact(data.len());
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

/// Decodes a response on behalf of `namespace`, and releases `held` afterwards.
pub(super) async fn decode<T>(namespace: &str, bytes: Vec<u8>, held: HeldBytes) -> Result<T, GuestError>
where
    T: DeserializeOwned + Send + 'static,
{
    if bytes.len() <= SMALL {
        return read(&bytes);
    }
    let limits = ComputationLimits { bytes: bytes.len(), time: DECODING };
    compute(namespace, limits, move |budget| {
        let _held = held;
        budget.spend(bytes.len())?;
        read(&bytes)
    })
    .await
}

/// Decodes a response from JSON.
///
/// # Errors
/// Fails if the response doesn't have the expected form.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, GuestError> {
    serde_json::from_slice(bytes)
        .map_err(|_| ApiRejection::new("its answer does not have the expected form").into())
}

impl From<Exceeded> for GuestError {
    fn from(exceeded: Exceeded) -> Self {
        ApiRejection::new(&format!("reading its answer: {exceeded}")).into()
    }
}

/// The labels or annotations that a reader needs.
pub trait Keys {
    /// The keys of these labels or annotations.
    const KEYS: &'static [&'static str];
}

/// An object's labels or annotations: the values for the keys in `K`, and a hash for all labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks<K> {
    kept: BTreeMap<&'static str, String>,
    hash: u64,
    of: PhantomData<fn() -> K>,
}

impl<K> Default for Marks<K> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), hash: 0, of: PhantomData }
    }
}

impl<K> Marks<K> {
    /// Returns the value for a key in `K`. A value with more than 16 KiB isn't kept.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.kept.get(key).map(String::as_str)
    }

    /// Returns a hash that changes if any label or annotation is added, removed or changed.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl<'de, K: Keys> Deserialize<'de> for Marks<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<K>(PhantomData<K>);

        impl<'de, K: Keys> Visitor<'de> for Pairs<K> {
            type Value = Marks<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("texts by key")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Marks::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Self::Value, A::Error> {
                let mut marks = Marks::default();
                while let Some((key, value)) = pairs.next_entry::<String, String>()? {
                    let mut hasher = DefaultHasher::new();
                    (&key, &value).hash(&mut hasher);
                    // A sum, so that the order doesn't matter.
                    marks.hash = marks.hash.wrapping_add(hasher.finish());
                    let named = K::KEYS.iter().find(|named| **named == key);
                    if let Some(named) = named.filter(|_| value.len() <= LONGEST_MARK) {
                        marks.kept.insert(named, value);
                    }
                }
                Ok(marks)
            }
        }

        deserializer.deserialize_any(Pairs(PhantomData))
    }
}

/// The metadata that is kept for an object.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(bound = "K: Keys", default, rename_all = "camelCase")]
pub struct Metadata<K> {
    /// The object's name.
    #[serde(deserialize_with = "word")]
    pub name: Option<String>,
    /// The object's namespace.
    #[serde(deserialize_with = "word")]
    pub namespace: Option<String>,
    /// The UID. If an object is deleted and created again with the same name, the new object has a different UID.
    #[serde(deserialize_with = "word")]
    pub uid: Option<String>,
    /// The object's resourceVersion.
    #[serde(deserialize_with = "word")]
    pub resource_version: Option<String>,
    /// The generation, which increases with every spec change.
    pub generation: Option<i64>,
    /// The time at which the deletion was requested.
    #[serde(deserialize_with = "word")]
    pub deletion_timestamp: Option<String>,
    /// The labels that `K` names, and a hash of all labels.
    pub labels: Marks<K>,
    /// The annotations that `K` names, and a hash of all annotations.
    pub annotations: Marks<K>,
}

impl<K> Default for Metadata<K> {
    fn default() -> Self {
        Self {
            name: None,
            namespace: None,
            uid: None,
            resource_version: None,
            generation: None,
            deletion_timestamp: None,
            labels: Marks::default(),
            annotations: Marks::default(),
        }
    }
}

/// An object from which only the metadata is read.
#[derive(Deserialize)]
#[serde(bound = "K: Keys")]
pub struct MetadataOnly<K> {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: Metadata<K>,
}

/// Deserializes a short string, or null. Fails if the string is longer than [`LONGEST_WORD`].
pub(super) fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text {
        Some(text) if text.len() > LONGEST_WORD => Err(D::Error::custom("too long")),
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Named;

    impl Keys for Named {
        const KEYS: &'static [&'static str] = &["a"];
    }

    fn metadata(document: &serde_json::Value) -> Result<Metadata<Named>, GuestError> {
        read::<MetadataOnly<Named>>(document.to_string().as_bytes()).map(|object| object.metadata)
    }

    #[test]
    fn what_is_named_is_kept_and_every_change_shows() {
        let of =
            |labels: serde_json::Value| metadata(&json!({"metadata": {"labels": labels}})).unwrap().labels;
        let labels = of(json!({"a": "1", "b": "2"}));
        assert_eq!((labels.get("a"), labels.get("b"), labels.kept.len()), (Some("1"), None, 1));
        assert_eq!(labels, of(json!({"b": "2", "a": "1"})));
        for changed in
            [json!({"a": "1"}), json!({"a": "1", "b": "3"}), json!({"a": "1", "c": "2"}), json!(null)]
        {
            assert_ne!(labels.hash(), of(changed.clone()).hash(), "{changed}");
        }
        let long = of(json!({"a": "x".repeat(LONGEST_MARK + 1)}));
        assert_eq!(long.get("a"), None);
        assert!(metadata(&json!({"metadata": {"name": "x".repeat(LONGEST_WORD + 1)}})).is_err());
    }
}
