//! Input that came from a Secret.

/// Input that came from a Secret. It has no `Debug` and no `Display`, so that no message, log line or event can contain it.
///
/// Call [`expose`](Self::expose) only where the input is parsed or passed on, and never in the arguments of a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Confidential<T>(T);

impl<T> Confidential<T> {
    /// Wraps input that came from a Secret.
    pub fn new(input: T) -> Self {
        Self(input)
    }

    /// Returns the input, to parse it or to pass it on.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the input itself, to pass it on.
    pub fn into_exposed(self) -> T {
        self.0
    }
}
