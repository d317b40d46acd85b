//! Logs the diagnostics of the command itself to standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The crates whose diagnostics `-v` shows. The detailed levels of other crates, such as HTTP libraries, can show
/// headers and bodies, and so tokens and passwords.
const CRATES: [&str; 10] =
    ["layercake", "components", "gcm", "capw", "kit", "nodeimage", "plane", "sim", "vmop", "vsphere"];
/// The module of the Kubernetes client that logs method, URL and status of each request, and nothing else of it.
const REQUESTS: &str = "kube_client::client::builder=debug";

/// Starts logging. If the environment variable `RUST_LOG` is set, `verbosity` (the value of `-v`) has no effect.
pub fn start(verbosity: u8) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| directives(verbosity).into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let log = log.with_ansi(std::io::stderr().is_terminal());
    // Fails if a test has already started logging. Ignore that.
    let _ = log.finish().try_init();
}

/// Returns the filter directives for a value of `-v`.
fn directives(verbosity: u8) -> String {
    let level = match verbosity {
        0 => None,
        1..=3 => Some("info"),
        4..=5 => Some("debug"),
        _ => Some("trace"),
    };
    let own = level.into_iter().flat_map(|level| CRATES.map(|name| format!("{name}={level}")));
    let requests = (verbosity >= 6).then(|| REQUESTS.to_owned());
    let quiet = ["warn", "kube_client=off"].map(str::to_owned);
    quiet.into_iter().chain(own).chain(requests).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    /// Returns true if this filter enables an event. Callsites need constants, so this is a macro.
    macro_rules! shows {
        ($verbosity:expr, $target:literal, $level:expr) => {
            tracing::subscriber::with_default(
                tracing_subscriber::fmt().with_env_filter(EnvFilter::new(directives($verbosity))).finish(),
                || tracing::enabled!(target: $target, $level),
            )
        };
    }

    #[test]
    fn each_level_shows_more_of_the_command_itself() {
        let shown = |verbosity: u8| {
            [
                shows!(verbosity, "layercake::files", Level::WARN),
                shows!(verbosity, "plane::plane", Level::INFO),
                shows!(verbosity, "vsphere::retry", Level::DEBUG),
                shows!(verbosity, "vsphere::client", Level::TRACE),
                shows!(verbosity, "kube_client::client::builder", Level::DEBUG),
            ]
        };
        for (levels, expected) in [
            (0..=0, [true, false, false, false, false]),
            (1..=3, [true, true, false, false, false]),
            (4..=5, [true, true, true, false, false]),
            (6..=9, [true, true, true, true, true]),
        ] {
            for level in levels {
                assert_eq!(shown(level), expected, "{level}");
            }
        }
    }

    /// Events of these targets can show headers, or parts of requests and responses.
    #[test]
    fn no_level_shows_headers_or_bodies() {
        for level in 0..=9 {
            let shown = [
                shows!(level, "kube_client::client", Level::DEBUG),
                shows!(level, "kube_client::client", Level::TRACE),
                shows!(level, "kube_client::client::builder", Level::TRACE),
                shows!(level, "h2::codec::framed_write", Level::DEBUG),
                shows!(level, "hyper::proto::h1::role", Level::TRACE),
                shows!(level, "hyper_util::client::legacy::client", Level::DEBUG),
                shows!(level, "reqwest::connect", Level::DEBUG),
                shows!(level, "rustls::client::hs", Level::DEBUG),
                shows!(level, "tower::buffer::worker", Level::TRACE),
            ];
            assert_eq!(shown, [false; 9], "{level}");
        }
    }
}
