//! Lays out the archive's files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;
use layercake::args::{Cli, ManifestsFlags};
use layercake::init;
use layercake::kube::manifest;
use plane::tools;

use crate::args::Args;
use crate::contents;

/// The folder with the programs that the command starts. The command looks for them here, relative to its own folder.
pub const TOOLS: &str = "lib/layercake/tools";
/// The folder with documents.
const DOCUMENTS: &str = "share/doc/layercake";
/// The files and folders that are copied to it. They keep their places, so that links between pages lead somewhere.
const PAGES: [&str; 8] = [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "vmop/README.md",
];
/// The completion scripts, in the folders where the shells look for them.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/layercake"),
    (Shell::Fish, "share/fish/vendor_completions.d/layercake.fish"),
    (Shell::Zsh, "share/zsh/site-functions/_layercake"),
];

/// Writes all files except the checksums.
pub fn write(args: &Args, root: &Path, version: &str) -> Result<()> {
    let program = root.join("bin/layercake");
    copy(&args.layercake, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;

    let all: Vec<_> = tools::control_plane().chain(sim::tools::programs()).collect();
    let release = format!("{version} ({})", args.commit);
    tools::pack(&all, &root.join(TOOLS), &release, &args.go, &*tools::progress())?;

    manuals(&root.join("share/man/man1"))?;
    for (shell, path) in COMPLETIONS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "layercake", &mut script);
        write_file(&root.join(path), &script)?;
    }
    let data = root.join("share/layercake");
    let manifests = init::manifest_objects(&ManifestsFlags::default())?;
    write_file(&data.join("install.yaml"), manifest::yaml(&manifests)?.as_bytes())?;
    copy_folder(&args.clusterctl, &data.join("clusterctl"))?;
    copy_folder(&args.source.join("examples"), &data.join("examples"))?;

    let documents = root.join(DOCUMENTS);
    for page in PAGES {
        let (from, to) = (args.source.join(page), documents.join(page));
        if from.is_dir() { copy_folder(&from, &to)? } else { copy(&from, &to)? }
    }
    let document = contents::write(args, version, &all, &documents.join("licenses"))?;
    write_file(&documents.join("sbom.spdx.json"), format!("{document:#}\n").as_bytes())
}

/// Writes a manual page for the command and each subcommand.
fn manuals(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder).context("cannot write the manual pages")
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() { copy_folder(&from, &to)? } else { copy(&from, &to)? }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write_file(to, &content)
}

/// Writes a file, and the folders above it if they are missing.
pub fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
