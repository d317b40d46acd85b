//! Builds programs from their Go modules.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::cache::{BuildCache, make_private};
use super::estimate::Estimate;
use super::go::{check, go, run, write_sources};
use super::module::{GCFLAGS, Module};
use super::progress::BuildProgress;
use super::tool::Tool;
use crate::error::{OperationContext, Result};

/// Programs that one run of `go build` builds: either the programs in one module that get their names from Go, or one
/// other program.
struct Batch {
    module: &'static Module,
    tools: Vec<&'static Tool>,
}

impl Batch {
    fn name(&self) -> String {
        self.tools.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ")
    }

    fn seconds(&self) -> u32 {
        self.tools.iter().map(|tool| tool.seconds).sum()
    }

    fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|tool| tool.package)
    }
}

/// Builds the missing programs into the cache.
pub(super) fn build(
    cache: &BuildCache,
    missing: &[&'static Tool],
    progress: &dyn BuildProgress,
) -> Result<()> {
    let _lock = cache.lock(progress)?;
    // Another process may have built some of the programs while this one waited for the lock.
    let wanted: Vec<_> = missing.iter().copied().filter(|tool| !cache.program(tool).is_file()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    check(wanted.iter().map(|tool| tool.name))?;
    let batches = batches(&wanted);
    let mut estimate = Estimate::new(batches.iter().map(Batch::seconds).sum());
    fetch_ahead(cache, batches.get(1..).unwrap_or_default())?;
    for (index, batch) in batches.iter().enumerate() {
        progress.begin(&batch.name(), index + 1, batches.len());
        estimate.begin(batch.seconds());
        build_batch(cache, batch, &mut estimate, progress)?;
        progress.end();
    }
    Ok(())
}

/// Groups programs that are built together. Keeps the order of the programs.
fn batches(tools: &[&'static Tool]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for tool in tools {
        let joined = batches.iter_mut().find(|batch| {
            let is_named = batch.tools.iter().all(|other| other.is_named_by_go());
            batch.module.name == tool.module.name && tool.is_named_by_go() && is_named
        });
        match joined {
            Some(batch) => batch.tools.push(tool),
            None => batches.push(Batch { module: tool.module, tools: vec![tool] }),
        }
    }
    batches
}

/// Makes Go fetch the sources for later batches while it compiles the first batch. Ignores Go's errors, because the build
/// reports them.
fn fetch_ahead(cache: &BuildCache, later: &[Batch]) -> Result<()> {
    let mut commands = Vec::new();
    for batch in later {
        let mut list = go(&write_sources(cache, batch.module)?);
        list.args(["list", "-mod=readonly", "-deps"]).args(batch.packages());
        commands.push(list);
    }
    thread::spawn(move || {
        for mut command in commands {
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    });
    Ok(())
}

fn build_batch(
    cache: &BuildCache,
    batch: &Batch,
    estimate: &mut Estimate,
    progress: &dyn BuildProgress,
) -> Result<()> {
    let sources = write_sources(cache, batch.module)?;
    // The program gets its name only when it is complete, even if this process is killed during the build.
    let unfinished = cache.folder(batch.module).join(".unfinished");
    make_private(&unfinished)?;
    run(command(&sources, batch, &unfinished), &batch.name(), |line| {
        estimate.advance();
        progress.advance(line, estimate.left());
    })?;
    for tool in &batch.tools {
        let (built, finished) = (unfinished.join(tool.name), cache.program(tool));
        fs::rename(&built, finished).doing(|| format!("rename {}", built.display()))?;
    }
    Ok(())
}

fn command(sources: &Path, batch: &Batch, into: &Path) -> Command {
    let mut build = go(sources);
    build
        .args(["build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .arg(format!("-tags={}", batch.module.tags.join(",")))
        .arg(GCFLAGS)
        .arg(format!("-ldflags={}", batch.module.ldflags()))
        .arg("-o");
    match batch.tools.as_slice() {
        [single] => build.arg(into.join(single.name)),
        // With a trailing slash, Go treats the path as a folder.
        _ => build.arg(into.join("")),
    };
    build.args(batch.packages());
    build
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool::{CLUSTERCTL, CONTROL_PLANE, KUBEADM};

    #[test]
    fn programs_that_go_names_are_built_together() {
        let wanted: Vec<_> = CONTROL_PLANE.iter().chain([&KUBEADM, &CLUSTERCTL]).collect();
        let names: Vec<_> = batches(&wanted).iter().map(Batch::name).collect();
        assert_eq!(
            names,
            [
                "etcd",
                "kube-apiserver, kube-controller-manager, kubeadm",
                "capi-core",
                "capi-kubeadm-bootstrap",
                "capi-kubeadm-control-plane",
                "capi-ipam-in-cluster",
                "clusterctl"
            ]
        );
    }
}
