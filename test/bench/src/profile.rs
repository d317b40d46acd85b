//! Where the API server's processor time goes: its own profile, as `go tool pprof` reads it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::Client;
use kube::client::Body;
use tokio::task::JoinHandle;

/// How long it is watched; most of a run of 1,000 VMs, and all of one of 200.
const SECONDS: u32 = 10;

/// A profile that is being taken, if one is wanted.
pub struct Profile(Option<JoinHandle<Result<()>>>);

impl Profile {
    /// Profiles the API server from now on; `NAME.pprof` in that folder is the profile.
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
