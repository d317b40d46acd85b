//! The arguments of the program.

use std::path::PathBuf;

use clap::Parser;

/// Writes layercake-VERSION-TARGET.tar.gz with the command and all programs that it starts, and a small archive without these
/// programs, and the Helm chart.
#[derive(Debug, Parser)]
pub struct Args {
    /// The statically linked command.
    #[arg(long)]
    pub layercake: PathBuf,
    /// The folder with the files for clusterctl.
    #[arg(long)]
    pub clusterctl: PathBuf,
    /// The Go version that must have built the programs, such as go1.26.8.
    #[arg(long)]
    pub go: String,
    /// The commit that the release is built from.
    #[arg(long)]
    pub commit: String,
    /// The time for all files, in seconds since 1970.
    #[arg(long)]
    pub epoch: i64,
    /// The repository's root folder.
    #[arg(long, default_value = ".")]
    pub source: PathBuf,
    /// The folder to write to.
    #[arg(long)]
    pub out: PathBuf,
}
