//! Go sources for Helm's command line, with which tests render the chart of a release.

use include_dir::{Dir, include_dir};

/// The Go sources.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/helm");
/// The Go package of the program.
pub const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";
