//! Generates the table in docs/performance.md, and stores figures for programs that don't have `--figures`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::figures::{self, Figures, KeepFlags, Keeper, Sources};
use clap::{Parser, Subcommand};
use serde_json::Value;

/// The figures to store from a `layercake up -o json` report, besides its milestones.
const UP: &Sources = &[
    ("stackSeconds", "/stack/seconds"),
    ("seconds", "/clusters/0/seconds"),
    ("gcmMiB", "/memoryMiB/gcm"),
    ("capwMiB", "/memoryMiB/capw"),
    ("vmopMiB", "/memoryMiB/vmop"),
    ("stackMiB", "/memoryMiB/stack"),
];

/// Keeps figures and shows them.
#[derive(Debug, Parser)]
#[command(name = "figures")]
struct Flags {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Writes a page, given on standard input, with the table of the kept figures to standard output.
    Page {
        /// The file that keeps the figures.
        #[arg(long, default_value = figures::FILE)]
        figures: PathBuf,
    },
    /// Keeps the figures of `layercake up --once -f examples/test-cluster.yaml -o json`, whose report is given on standard input.
    Up {
        #[command(flatten)]
        keep: KeepFlags,
    },
    /// Keeps figures that were measured otherwise.
    Set {
        #[command(flatten)]
        keep: KeepFlags,
        /// The name of the run, such as `first-run`.
        run: String,
        /// The figures, such as `seconds=943`.
        #[arg(required = true, value_parser = figure)]
        values: Vec<(String, f64)>,
    },
}

fn main() -> ExitCode {
    bench::entry::exit_code(run(Flags::parse().command))
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Page { figures } => print_page(&figures),
        Task::Up { keep } => keep_up(&keeper(keep)?),
        Task::Set { keep, run, values } => keeper(keep)?.keep_values(&run, values.into_iter().collect()),
    }
}

fn print_page(file: &Path) -> Result<()> {
    print!("{}", figures::with_table(&std::io::read_to_string(std::io::stdin())?, &Figures::read(file)?)?);
    Ok(())
}

/// Returns the [`Keeper`] for these flags. The default file is the repository's.
fn keeper(keep: KeepFlags) -> Result<Keeper> {
    let figures = keep.figures.or_else(|| Some(PathBuf::from(figures::FILE)));
    KeepFlags { figures, ..keep }.keeper()?.context("no file keeps the figures")
}

fn keep_up(keeper: &Keeper) -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let report: Value =
        serde_json::from_str(&text).context("cannot read the report of layercake up -o json")?;
    let cluster = &report["clusters"][0];
    ensure!(cluster["phase"] == "running", "the cluster of the report is not running");
    let milestones = cluster["milestones"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut values: BTreeMap<_, _> = milestones
        .iter()
        .filter_map(|milestone| {
            Some((milestone["name"].as_str()?.to_owned(), milestone["seconds"].as_f64()?))
        })
        .collect();
    values.extend(
        UP.iter().filter_map(|(key, place)| Some(((*key).to_owned(), report.pointer(place)?.as_f64()?))),
    );
    keeper.keep_values("up", values)
}

/// Parses `KEY=NUMBER`.
fn figure(text: &str) -> Result<(String, f64), String> {
    let read = text.split_once('=').and_then(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
    read.ok_or_else(|| format!("{text:?} is not KEY=NUMBER"))
}
