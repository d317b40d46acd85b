//! The parts of a bundle: what they are read from and written into, and those that other commands make.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::archive::Archive;
use super::contents::Contents;
use super::scrub::Scrubber;
use super::source::Source;
use crate::describe;

/// How long the checks of `layercake doctor` may take.
const DOCTOR: Duration = Duration::from_mins(1);

/// How long the objects of one cluster's tree may take.
const TREE: Duration = Duration::from_secs(30);

pub struct Cluster {
    pub namespace: String,
    pub name: String,
}

/// What the parts of a bundle are read from and written into.
pub struct Parts<'a, W: Write> {
    pub source: &'a Source,
    /// What is taken out of all texts.
    pub scrubber: &'a Scrubber,
    pub archive: &'a mut Archive<W>,
    /// What the list of contents will say.
    pub contents: &'a mut Contents,
    /// Events and lines of logs that are older are left out.
    pub since: Option<Duration>,
}

impl<W: Write> Parts<'_, W> {
    /// Writes what `layercake describe` says of each cluster.
    pub async fn write_trees(&mut self, clusters: Vec<Cluster>) -> Result<()> {
        for Cluster { namespace, name } in clusters {
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

    /// Writes what `layercake doctor` says.
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
