//! Measures JSON as it arrives, without decoding it.

/// The estimated memory in bytes for a value (a field or a map entry), in addition to its text.
const VALUE_BYTES: usize = 64;
/// The estimated memory in bytes for a list entry: Go allocates a whole struct even for `{}` and `null`. A Pod takes 1168 bytes.
const ELEMENT_BYTES: usize = 1 << 10;

/// Counts the bytes and values in a JSON text that arrives in pieces.
///
/// The meter doesn't check the syntax. Even for invalid JSON, a decoder doesn't create more values than the meter counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonMeter {
    bytes: usize,
    separators: usize,
    elements: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The last byte outside strings that isn't white space.
    last: u8,
}

impl JsonMeter {
    /// Counts the bytes and values in the next piece of the text. Pieces can have any boundaries, even within a string.
    pub fn take(&mut self, piece: &[u8]) {
        for byte in piece {
            self.step(*byte);
        }
    }

    /// Counts a piece up to the end of the first top-level object or list, and ignores the rest. Returns the number of counted
    /// bytes, or `None` if the object or list doesn't end in this piece.
    pub fn take_document(&mut self, piece: &[u8]) -> Option<usize> {
        for (at, byte) in piece.iter().enumerate() {
            self.step(*byte);
            if self.depth == 0 && !self.in_text && matches!(byte, b'}' | b']') {
                return Some(at + 1);
            }
        }
        None
    }

    /// Returns the number of bytes that have been counted so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an upper bound for the number of values so far: each follows a comma or an opening bracket, or is the whole text.
    pub fn values(&self) -> usize {
        self.separators.saturating_add(1)
    }

    /// Returns an estimate of the memory in bytes after decoding into Go types.
    pub fn decoded_bytes(&self) -> usize {
        let values = self.values().saturating_mul(VALUE_BYTES);
        self.bytes.saturating_add(values).saturating_add(self.elements.saturating_mul(ELEMENT_BYTES))
    }

    fn step(&mut self, byte: u8) {
        self.bytes = self.bytes.saturating_add(1);
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return,
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                self.separators = self.separators.saturating_add(1);
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.separators = self.separators.saturating_add(1),
            _ => {}
        }
        // In an object, a comma is followed by a name, so only list entries count here.
        if matches!(self.last, b'[' | b',') && matches!(byte, b'{' | b'n') {
            self.elements = self.elements.saturating_add(1);
        }
        self.last = byte;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn measure(json: &[u8]) -> JsonMeter {
        let mut meter = JsonMeter::default();
        meter.take(json);
        meter
    }

    #[test]
    fn counts_values_outside_of_texts() {
        assert_eq!(measure(b"7").values(), 1);
        assert_eq!(measure(br#"{"a": [1, 2], "b": "x,[{\",[{", "c": {}}"#).values(), 7);
        assert_eq!(measure(br#"["\\", ","]"#).values(), 3);
    }

    #[test]
    fn counts_objects_in_lists() {
        assert_eq!(measure(br#"{"items": [{}, {"a": {"b": null}}, null, 1, "x"], "c": {}}"#).elements, 3);
        let small = format!("[{}{{}}]", "{},".repeat(999));
        assert!(measure(small.as_bytes()).decoded_bytes() > 1000 * ELEMENT_BYTES);
    }

    #[test]
    fn finds_the_end_of_a_document() {
        let mut meter = JsonMeter::default();
        assert_eq!(meter.take_document(br#" {"a": "}", "b"#), None);
        assert_eq!(meter.take_document(br#"": [{}]}{"c": 1}"#), Some(8));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".*".prop_map(Value::from),];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(all) => all.iter().map(count).sum(),
            Value::Object(all) => all.values().map(count).sum(),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn never_counts_fewer_values_than_there_are(value in json(), cut in any::<prop::sample::Index>()) {
            let text = serde_json::to_vec(&value).unwrap();
            let (one, other) = text.split_at(cut.index(text.len()));
            let mut meter = JsonMeter::default();
            meter.take(one);
            meter.take(other);
            prop_assert!(meter.values() >= count(&value));
            prop_assert_eq!(meter.bytes(), text.len());
        }

        #[test]
        fn ends_a_document_where_it_ends(value in json(), cut in any::<prop::sample::Index>()) {
            let document = serde_json::to_vec(&serde_json::json!({ "object": value })).unwrap();
            let stream = [document.as_slice(), b"\n{}"].concat();
            let at = cut.index(document.len());
            let mut meter = JsonMeter::default();
            prop_assert_eq!(meter.take_document(&stream[..at]), None);
            prop_assert_eq!(meter.take_document(&stream[at..]), Some(document.len() - at));
        }
    }
}
