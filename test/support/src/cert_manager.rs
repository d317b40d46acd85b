//! cert-manager: the Go sources of a program that runs its controllers, which stories build as the other programs of the site.

use include_dir::{Dir, include_dir};

/// The sources.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/certmanager");
/// The module whose folder has the definitions, in `deploy/crds`.
pub const MODULE: &str = "github.com/cert-manager/cert-manager";
