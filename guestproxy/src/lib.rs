//! A proxy between Cluster API's managers and workload cluster API servers.
//!
//! A user with root access to a control plane node can impersonate the cluster's API server, and Cluster API's managers
//! read responses of any size. Therefore each manager uses its own proxy for HTTPS (`HTTPS_PROXY`), which forwards only
//! as much as the manager has memory for:
//!
//! ```text
//!   manager ── CONNECT HOST:PORT, TLS ──► proxy ── TLS ──► API server of the workload cluster
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`limits`] | the limits, with the reasons for their values |
//! | [`clusters`] | finds the cluster for a target address; other targets are refused |
//! | [`credentials`], [`authority`] | TLS on both sides: a certificate for the endpoint, signed by the cluster's own authority |
//! | [`proxy`] | accepts connections |
//! | [`link`] | forwards one connection's requests |
//! | [`rewrite`] | headers: only uncompressed JSON and text, no redirects |
//! | [`answer`] | forwards responses and watches, and measures their sizes |
//! | [`live`] | counts the objects that watches add to the manager's caches |
//! | [`tunnel`] | forwards connections with other protocols, such as port-forwards |
//! | [`guest`] | one cluster's state |
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
use guest::ProxiedClusters;
use proxy::ManagerProxy;

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

/// Runs the proxy. The first argument is the program name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    match flags::parse::<Flags>(args) {
        // Each manager has its own proxy, and all proxies are active.
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
    let proxy = ManagerProxy::new(ProxiedClusters::new(clusters), Vault::new(started.client.clone()));
    proxy.serve(listener, started.shutdown.clone()).await;
    Ok(())
}
