//! Go sources for an OpenID Connect provider with one user. Stories build it like the site's other programs.

use include_dir::{Dir, include_dir};

/// The sources. `issuer serve` runs the provider, and `issuer token` logs its user in.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/issuer");
