//! A proxy between Cluster API's managers and the API servers of workload clusters.
//!
//! Root on a control plane node answers in the name of its cluster's API server, and Cluster API's managers read answers without a
//! limit. Each manager uses a proxy of its own for HTTPS (`HTTPS_PROXY`), which forwards only as much as the manager has memory for:
//!
//! ```text
//!   manager ── CONNECT HOST:PORT, TLS ──► proxy ── TLS ──► API server of the workload cluster
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`limits`] | the limits, with their reasons |
//! | [`clusters`] | finds the cluster by its endpoint; other targets are refused |
//! | [`credentials`], [`authority`] | TLS on both sides: a certificate for the endpoint, signed by the cluster's own authority |
//! | [`proxy`] | accepts connections |
//! | [`link`] | forwards the requests of one connection |
//! | [`rewrite`] | headers: only JSON, not compressed, no redirects |
//! | [`answer`] | answers and watches, measured while they pass |
//! | [`live`] | the objects that watches put into the caches of the manager |
//! | [`tunnel`] | connections of other protocols, such as port-forwards |
//! | [`guest`] | the state of one cluster |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod answer;
pub mod authority;
pub mod clusters;
pub mod credentials;
pub mod guest;
pub mod limits;
pub mod link;
pub mod live;
pub mod proxy;
pub mod rewrite;
pub mod tunnel;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use kit::run::Fatal;
use kit::{Runtime, flags};
use tokio::net::TcpListener;

use clusters::Clusters;
use credentials::Vault;
use guest::Guests;
use proxy::Proxy;

/// Limits what Cluster API's managers read from workload clusters: a proxy for the HTTPS of one manager.
#[derive(Debug, Parser)]
#[command(name = "capw guest-proxy", version)]
struct Flags {
    #[command(flatten)]
    common: flags::Common,

    /// The address of the proxy. Only the manager beside it should reach it.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:3128", overrides_with = "listen")]
    listen: SocketAddr,
}

/// Runs the program with these arguments; the first is its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    match flags::parse::<Flags>(args) {
        // Every manager has one of its own, and all of them act.
        Ok(Flags { common, listen }) => {
            let common = flags::Common { leader_elect: false, ..common };
            kit::run("guest-proxy", common, |started| start(started, listen))
        }
        Err(code) => code,
    }
}

async fn start(started: Runtime, listen: SocketAddr) -> Result<(), Fatal> {
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("--listen {listen}: {error}"))?;
    let clusters = Clusters::watch(&started);
    started.lead().await?;
    let proxy = Proxy::new(Guests::new(clusters), Vault::new(started.client.clone()));
    proxy.serve(listener, started.shutdown.clone()).await;
    Ok(())
}
