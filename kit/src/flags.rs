//! The flags that all controllers share, so that their Deployments look alike.
//!
//! If a flag is given twice, the last value applies, so that you can override a Deployment's arguments by appending more.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};

/// Flags of every controller.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Kubeconfig file; without it KUBECONFIG, then the pod's own service account.
    #[arg(long, value_name = "FILE", overrides_with = "kubeconfig")]
    pub kubeconfig: Option<PathBuf>,

    /// The address of /metrics: over HTTPS, for users with the right to get that path.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "0.0.0.0:8443",
        overrides_with = "diagnostics_address"
    )]
    pub diagnostics_address: SocketAddr,

    /// Serve /metrics over plain HTTP, without authentication.
    #[arg(
        long,
        value_name = "BOOL",
        default_value = "false",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        overrides_with = "insecure_diagnostics"
    )]
    pub insecure_diagnostics: bool,

    /// The address of /healthz and /readyz.
    #[arg(long, value_name = "HOST:PORT", default_value = "0.0.0.0:8081", overrides_with = "health_address")]
    pub health_address: SocketAddr,

    /// Act only while holding the lease. Set it to false only if there is never more than one replica.
    #[arg(
        long,
        value_name = "BOOL",
        default_value = "true",
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        overrides_with = "leader_elect"
    )]
    pub leader_elect: bool,

    /// Namespace of the lease; without it POD_NAMESPACE, then the credentials' own namespace.
    #[arg(long, value_name = "NAMESPACE", overrides_with = "leader_election_namespace")]
    pub leader_election_namespace: Option<String>,

    /// The format of log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, overrides_with = "log_format")]
    pub log_format: LogFormat,

    /// The log level, or directives such as `info,kit=debug`.
    #[arg(long, value_name = "LEVEL", default_value = "info", overrides_with = "log_level")]
    pub log_level: String,
}

/// Flags of a controller that serves webhooks.
#[derive(Args, Clone, Debug)]
pub struct Webhook {
    /// The address of the webhooks, over HTTPS.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "0.0.0.0:9443",
        overrides_with = "webhook_address"
    )]
    pub webhook_address: SocketAddr,

    /// The folder with tls.crt and tls.key; both are reloaded when they change.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/run/webhook-certs",
        overrides_with = "webhook_cert_dir"
    )]
    pub webhook_cert_dir: PathBuf,

    /// File with the certificate authorities of the API server's client certificate. Admission then rejects all other
    /// clients. Without it, every client that reaches the port is served.
    #[arg(long, value_name = "FILE", overrides_with = "webhook_client_ca")]
    pub webhook_client_ca: Option<PathBuf>,

    /// File with a key. The conversion webhook then answers only requests whose path ends with it (`/convert/KEY`), because the
    /// API server presents no certificate there. Without it, every client that reaches the port is served.
    #[arg(long, value_name = "FILE", overrides_with = "webhook_conversion_key")]
    pub webhook_conversion_key: Option<PathBuf>,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON document per line.
    Json,
}

/// Parses a program's flags. `args[0]` is the program name. The error is the exit code: 0 after help, 2 after wrong usage.
pub fn parse<P: Parser>(args: Vec<OsString>) -> Result<P, ExitCode> {
    P::try_parse_from(args).map_err(|error| {
        // If stderr is closed, the message is lost.
        let _ = error.print();
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        webhook: Webhook,
    }

    fn parsed(args: &[&str]) -> Program {
        let args = std::iter::once("program").chain(args.iter().copied()).map(OsString::from).collect();
        parse(args).expect("valid flags")
    }

    #[test]
    fn defaults_suit_a_deployment() {
        let program = parsed(&[]);
        assert!(program.common.leader_elect);
        assert_eq!(program.common.diagnostics_address.port(), 8443);
        assert!(!program.common.insecure_diagnostics);
        assert_eq!(program.common.health_address.port(), 8081);
        assert_eq!(program.webhook.webhook_address.port(), 9443);
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let program = parsed(&[
            "--leader-elect",
            "--diagnostics-address=0.0.0.0:8443",
            "--insecure-diagnostics",
            "--log-level=warn",
            "--webhook-address=0.0.0.0:9443",
            "--diagnostics-address",
            "127.0.0.1:1234",
            "--insecure-diagnostics=false",
            "--leader-elect=false",
            "--log-level=debug",
            "--webhook-address=127.0.0.1:99",
        ]);
        assert!(!program.common.leader_elect);
        assert_eq!(program.common.diagnostics_address.to_string(), "127.0.0.1:1234");
        assert!(!program.common.insecure_diagnostics);
        assert_eq!(program.common.log_level, "debug");
        assert_eq!(program.webhook.webhook_address.port(), 99);
    }

    #[test]
    fn a_wrong_flag_is_wrong_usage() {
        let wrong = parse::<Program>(vec!["program".into(), "--no-such-flag".into()]);
        assert!(wrong.is_err());
    }
}
