//! Where a command acts: a cluster, and a namespace of it.

use std::path::PathBuf;

use anyhow::Result;
use kube::Client;

use crate::args::{ClusterFlags, TargetFlags};
use crate::bootstrap::{self, Opened};
use crate::connection::connect;
use crate::exit::ExitStatus;
use crate::init::given::GivenSite;
use crate::output::say;
use crate::warnings::Warnings;

/// The cluster and the namespace on which a command acts.
pub struct Target {
    /// The client of the cluster.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
    /// The warnings of the API server about what the command writes.
    pub warnings: Warnings,
    /// The bootstrap cluster, if it is one.
    pub bootstrap: Option<Opened>,
}

impl TargetFlags {
    /// Does `work` on the target that the flags select. A bootstrap cluster that is stopped runs meanwhile.
    ///
    /// # Errors
    /// As [`client`](crate::connection::client), or that of the work.
    pub async fn with(&self, work: impl AsyncFnOnce(&Target) -> Result<ExitStatus>) -> Result<ExitStatus> {
        let target = self.open(None).await?;
        let outcome = work(&target).await;
        let closed = target.close().await;
        outcome.and_then(|status| closed.map(|()| status))
    }

    /// The same for work that changes clusters. If it is not finished in time, a bootstrap cluster continues to run. It can be created
    /// for the site.
    ///
    /// # Errors
    /// As [`client`](crate::connection::client), or that of the work.
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

    /// The bootstrap cluster, if this command or one before it has started it only for the command.
    pub fn transient(&self) -> Option<&Opened> {
        self.bootstrap.as_ref().filter(|opened| opened.is_transient())
    }
}
