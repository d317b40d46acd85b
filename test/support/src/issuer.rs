//! An OpenID Connect provider with one user: its Go sources, which stories build as the other programs of the site.

use include_dir::{Dir, include_dir};

/// The sources. `issuer serve` is the provider, and `issuer token` logs its user in.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/issuer");
