//! The context for writing a bundle, and the parts that other commands produce.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::archive::Archive;
use super::contents::Contents;
use super::scrub::Scrubber;
use super::source::ObjectSource;
use crate::describe;

/// The timeout for `layercake doctor`.
const DOCTOR: Duration = Duration::from_mins(1);

/// The timeout for reading one cluster's tree.
const TREE: Duration = Duration::from_secs(30);

pub struct ClusterName {
    pub namespace: String,
    pub name: String,
}

/// The sources and destinations that all parts share.
pub struct BundleContext<'a, W: Write> {
    pub source: &'a ObjectSource,
    pub scrubber: &'a Scrubber,
    pub archive: &'a mut Archive<W>,
    pub contents: &'a mut Contents,
    /// The age limit for events and log lines.
    pub since: Option<Duration>,
}

impl<W: Write> BundleContext<'_, W> {
    /// Writes the `layercake describe` output for each cluster.
    pub async fn write_trees(&mut self, clusters: Vec<ClusterName>) -> Result<()> {
        for ClusterName { namespace, name } in clusters {
            let described = describe::describe(&self.source.client, &namespace, &name);
            let described = tokio::time::timeout(TREE, described).await.context("no answer in time");
            match described.and_then(|described| described) {
                Ok(tree) => {
                    let path = format!("clusters/{namespace}/{name}.txt");
                    self.archive.add(&path, self.scrubber.text(&tree.text(false)))?;
                }
                Err(error) => {
                    let what = format!("the tree of cluster {name}");
                    self.contents.miss_failed(&what, Some(&namespace), &error);
                }
            }
        }
        Ok(())
    }

    /// Writes the `layercake doctor` report.
    pub async fn write_diagnosis(&mut self, command: Command) -> Result<()> {
        match diagnosed(command).await {
            Ok(report) => self.archive.add("doctor.txt", self.scrubber.text(&report))?,
            Err(error) => self.contents.miss_failed("the report of layercake doctor", None, &error),
        }
        Ok(())
    }
}

async fn diagnosed(mut command: Command) -> Result<String> {
    let output = tokio::time::timeout(DOCTOR, command.output())
        .await
        .with_context(|| format!("no report within {} s", DOCTOR.as_secs()))?
        .context("cannot start it")?;
    if output.stdout.is_empty() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
