//! Writes log lines to stderr, as text or JSON, with one span per reconcile.

use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::flags::LogFormat;

/// The directives for libraries whose log lines repeat Layercake's own. They don't apply at the level `trace`, or if the user's
/// directives name a `kube_` library. `kube_client`'s warnings contain the whole response if a response can't be decoded, and the
/// response may be a Secret.
const QUIET: [&str; 4] = ["kube_runtime=warn", "kube_client=error", "hyper_util=warn", "rustls=warn"];

/// Starts logging for this process. `level` is a level or a list of directives, such as `info,kit=debug`. An invalid level counts
/// as `info`. A second call has no effect.
pub fn start(format: LogFormat, level: &str) {
    let builder = fmt().with_env_filter(filter(level)).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_ansi(false).finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging has already been started");
    }
}

fn filter(level: &str) -> EnvFilter {
    let asked_for_libraries = level.contains("kube_") || level == "trace";
    let mut directives = String::from(level);
    if !asked_for_libraries {
        for quiet in QUIET {
            directives.push(',');
            directives.push_str(quiet);
        }
    }
    EnvFilter::try_new(&directives).unwrap_or_else(|error| {
        eprintln!("--log-level {level:?} is not valid ({error}); logging at info");
        EnvFilter::new("info")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_quiet_unless_asked_for() {
        assert!(filter("info").to_string().contains("kube_runtime=warn"));
        assert!(filter("debug").to_string().contains("kube_client=error"), "its warnings hold whole answers");
        assert!(!filter("info,kube_client=debug").to_string().contains("kube_client=error"));
        assert_eq!(filter("not=a=level").to_string(), "info");
    }
}
