//! Writes a release's archive: the built command with its programs, manuals, completions, manifests, examples and licenses, and
//! lists that name everything in it. Also writes the Helm chart. `release/build` runs it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod args;
mod chart;
mod contents;
mod crates;
mod pack;
mod tree;

use std::fs;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::args::Args;

/// The platform in the archive's name. The programs run on any Linux with this architecture.
const TARGET: &str = concat!("x86_64", "-linux");

fn main() -> Result<()> {
    let args = Args::parse();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let name = format!("layercake-{version}-{TARGET}");
    let work = args.out.join(".unfinished");
    if work.exists() {
        let charts = work.join("charts");
        chart::write(&charts.join(chart::NAME), chart::manifests()?)?;
        let into = args.out.join(format!("{}-{}.tgz", chart::NAME, env!("CARGO_PKG_VERSION")));
        pack::archive(&charts, chart::NAME, args.epoch, &into)?;
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    let root = work.join(&name);
    tree::write(&args, &root, &version)?;
    pack::list(&root)?;
    pack::archive(&work, &name, args.epoch, &args.out.join(format!("{name}.tar.gz")))?;

    fs::remove_dir_all(root.join(tree::TOOLS)).context("cannot remove the programs for the small archive")?;
    pack::list(&root)?;
    let small = format!("{name}-small");
    fs::rename(&root, work.join(&small)).context("cannot rename the tree for the small archive")?;
    pack::archive(&work, &small, args.epoch, &args.out.join(format!("{small}.tar.gz")))?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}
