//! Go sources for a program that runs cert-manager's controllers. Stories build it like the site's other programs.

use include_dir::{Dir, include_dir};

/// The Go sources.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/certmanager");
/// The Go module that contains the CRDs, in `deploy/crds`.
pub const MODULE: &str = "github.com/cert-manager/cert-manager";
