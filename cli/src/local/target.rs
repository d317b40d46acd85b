//! The cluster and namespace that a command acts on.

use std::path::PathBuf;

use anyhow::Result;
use kube::Client;

use crate::args::{ClusterFlags, TargetFlags};
use crate::init::given::GivenSite;
use crate::kube::connection::connect;
use crate::kube::warnings::Warnings;
use crate::local::bootstrap::{self, Opened};
use crate::terminal::exit::ExitStatus;
use crate::terminal::output::say;

/// The cluster and namespace that a command acts on.
pub struct Target {
    pub client: Client,
    pub namespace: String,
    /// The API server's warnings about the command's writes.
    pub warnings: Warnings,
    /// The bootstrap cluster, if the target is one.
    pub bootstrap: Option<Opened>,
}

impl TargetFlags {
    /// Runs `work` on the target that the flags select. If the target is a stopped bootstrap cluster, starts it first,
    /// and stops it after `work`.
    ///
    /// # Errors
    /// Returns the errors of `work`, and the errors described for [`client`](crate::kube::connection::client).
    pub async fn with(&self, work: impl AsyncFnOnce(&Target) -> Result<ExitStatus>) -> Result<ExitStatus> {
        let target = self.open(None).await?;
        let outcome = work(&target).await;
        let closed = target.close().await;
        outcome.and_then(|status| closed.map(|()| status))
    }

    /// Runs `work` like [`Self::with`], for work that changes clusters. If `work` returns [`ExitStatus::NotYet`], the
    /// bootstrap cluster keeps running. A site file allows the command to create the bootstrap cluster.
    ///
    /// # Errors
    /// See [`Self::with`].
    pub async fn with_change(
        &self,
        site: Option<&GivenSite>,
        work: impl AsyncFnOnce(&Target) -> Result<ExitStatus>,
    ) -> Result<ExitStatus> {
        let target = self.open(site).await?;
        let outcome = work(&target).await;
        if matches!(outcome, Ok(ExitStatus::NotYet)) {
            if let Some(opened) = target.transient() {
                let name = opened.folder().name();
                say!(
                    "The management components run until the same command has finished, or until layercake bootstrap stop {name}"
                );
            }
            return outcome;
        }
        let closed = target.close().await;
        outcome.and_then(|status| closed.map(|()| status))
    }

    async fn open(&self, site: Option<&GivenSite>) -> Result<Target> {
        let ClusterFlags { kubeconfig, context } = &self.cluster;
        let bootstrap = match &self.bootstrap {
            Some(name) => Some(bootstrap::open(name, site).await?),
            None => None,
        };
        let kubeconfig = bootstrap.as_ref().map(|opened| &opened.kubeconfig).or(kubeconfig.as_ref());
        let warnings = Warnings::default();
        let client = connect(kubeconfig.map(PathBuf::as_path), context.as_deref(), &warnings).await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        Ok(Target { client, namespace, warnings, bootstrap })
    }
}

impl Target {
    async fn close(&self) -> Result<()> {
        match &self.bootstrap {
            Some(opened) => opened.close().await,
            None => Ok(()),
        }
    }

    /// Returns true if the target is a bootstrap cluster that runs only while a command changes its clusters.
    ///
    /// # Errors
    /// Returns an error if the bootstrap cluster's settings can't be read.
    pub fn is_for_commands(&self) -> Result<bool> {
        let settings = self.bootstrap.as_ref().map(|opened| opened.folder().settings()).transpose()?;
        Ok(settings.flatten().is_some_and(|settings| settings.for_command))
    }

    /// Returns the bootstrap cluster if a command started it temporarily. Returns `None` for other targets.
    pub fn transient(&self) -> Option<&Opened> {
        self.bootstrap.as_ref().filter(|opened| opened.is_transient())
    }
}
