//! Writes a release's archive: the built command with its programs, manuals, completions, manifests, examples and licenses, and
//! lists that name everything in it. `release/build` runs it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod contents;
mod crates;
mod pack;
mod tree;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;

/// Writes layercake-VERSION-TARGET.tar.gz with the command and all programs that it starts, and a small archive without these
/// programs.
#[derive(Debug, Parser)]
struct Args {
    /// The statically linked command.
    #[arg(long)]
    layercake: PathBuf,
    /// The folder with the files for clusterctl.
    #[arg(long)]
    clusterctl: PathBuf,
    /// The Go version that must have built the programs, such as go1.26.8.
    #[arg(long)]
    go: String,
    /// The commit that the release is built from.
    #[arg(long)]
    commit: String,
    /// The time for all files, in seconds since 1970.
    #[arg(long)]
    epoch: i64,
    /// The repository's root folder.
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// The folder to write to.
    #[arg(long)]
    out: PathBuf,
}

/// The platform in the archive's name. The programs run on any Linux with this architecture.
const TARGET: &str = concat!("x86_64", "-linux");

fn main() -> Result<()> {
    let args = Args::parse();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let name = format!("layercake-{version}-{TARGET}");
    let work = args.out.join(".unfinished");
    if work.exists() {
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
