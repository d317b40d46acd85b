//! Keys for web console requests, and the private key for the first ones. They are only for tests; `openssl genrsa 2048` generated them.

/// The lines `modulus=` and `private=` of the private key, then public keys in PEM, each after a line `[NAME]`.
pub const TEXT: &str = include_str!("console-keys.txt");

/// Returns the PEM text of a public key: `wrapped` is a key as `openssl rsa -pubout` writes it.
pub fn pem(name: &str) -> String {
    let (_, rest) = TEXT.split_once(&format!("[{name}]\n")).expect("a key of this name");
    rest.split_inclusive('\n').take_while(|line| !line.starts_with('[')).collect()
}
