//! A wrapper for input from Secrets.

/// Input from a Secret. It doesn't implement `Debug` or `Display`, so that messages, log lines and events can't contain it.
///
/// Call [`expose`](Self::expose) only to parse the input or to pass it on, and never in the arguments of a message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Confidential<T>(T);

impl<T> Confidential<T> {
    /// Wraps input from a Secret.
    pub fn new(input: T) -> Self {
        Self(input)
    }

    /// Returns the input, to parse it or to pass it on.
    pub fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the input, to pass it on.
    pub fn into_exposed(self) -> T {
        self.0
    }
}
