//! The protocols that carry the VIM API.

/// A protocol that carries the VIM API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// JSON, from vCenter 8.0 U1 on.
    ViJson,
    /// SOAP, everywhere.
    Soap,
}
