//! Takes CPU profiles of the API server, which `go tool pprof` can read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::Client;
use kube::client::Body;
use tokio::task::JoinHandle;

/// The length of a profile. It covers most of a run with 1,000 VMs, and a whole run with 200.
const SECONDS: u32 = 10;

/// A running profile, or `None` if profiling is off.
pub struct Profile(Option<JoinHandle<Result<()>>>);

impl Profile {
    /// Starts to profile the API server. The profile is written to `NAME.pprof` in `folder`.
    pub fn begin(client: &Client, folder: Option<&Path>, name: &str) -> Self {
        let taken = folder.map(|folder| take_profile(client.clone(), folder.join(format!("{name}.pprof"))));
        Self(taken.map(tokio::spawn))
    }

    /// Waits until the profile is written.
    pub async fn finish(self) -> Result<()> {
        match self.0 {
            Some(taken) => taken.await?,
            None => Ok(()),
        }
    }
}

async fn take_profile(client: Client, path: PathBuf) -> Result<()> {
    let request = http::Request::get(format!("/debug/pprof/profile?seconds={SECONDS}"));
    let answer = client.send(request.body(Body::empty())?).await.context("cannot profile the API server")?;
    let status = answer.status();
    anyhow::ensure!(status.is_success(), "the API server takes no profile: {status}");
    let profile = answer.into_body().collect_bytes().await.context("cannot read the profile")?;
    std::fs::write(&path, profile).with_context(|| format!("cannot write {}", path.display()))
}
