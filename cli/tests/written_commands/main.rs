//! Checks every `layercake …` in pages, examples and messages with the command line definition.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod examples;
mod rust;
mod shell;
mod text;

use std::path::{Path, PathBuf};

use text::Written;

/// The minimum number of commands to find. With fewer, the search has missed most of them.
const FEWEST: usize = 60;

#[test]
fn the_command_line_accepts_every_written_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = 0;
    let mut wrong = Vec::new();
    for path in files(root) {
        let content = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap();
        for written in written(name, &content) {
            found += 1;
            if let Some(report) = report(name, &written) {
                wrong.push(report);
            }
        }
    }
    assert!(wrong.is_empty(), "commands that layercake does not take:\n{}", wrong.join("\n"));
    assert!(found >= FEWEST, "only {found} commands were found");
}

/// Returns `FILE:LINE: COMMAND: REASON` for a command that the command line refuses, or `None` for a valid command.
fn report(name: &Path, written: &Written) -> Option<String> {
    let why = command::check(&written.args, written.whole).err()?;
    Some(format!("{}:{}: layercake {}: {why}", name.display(), written.line, written.args.join(" ")))
}

/// Returns the commands in a file, by file type.
fn written(name: &Path, content: &str) -> Vec<Written> {
    match name.extension().and_then(|extension| extension.to_str()) {
        Some("md") => text::of_page(content),
        Some("rs") => text::of_source(content),
        _ => text::of_comments(content),
    }
}

/// Returns the files to check: pages and sources everywhere, manifests in `examples`.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                // These tests contain wrong commands on purpose.
                if !name.starts_with('.') && !["target", "generated", "written_commands"].contains(&name) {
                    folders.push(path);
                }
            } else if is_read(&path, root) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn is_read(path: &Path, root: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md" | "rs") => true,
        Some("yaml") => path.starts_with(root.join("examples")),
        _ => false,
    }
}

#[test]
fn a_wrong_command_is_reported_with_its_file_and_line() {
    let page = "# Page\n\n    layercake up --once\n    layercake up --onec   # wrong\n\nSee `layercake\ndescribe NAME`.\n";
    let name = Path::new("docs/page.md");
    let reports: Vec<_> = written(name, page).iter().filter_map(|written| report(name, written)).collect();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports[0].starts_with("docs/page.md:4: layercake up --onec: "), "{reports:?}");
    assert!(reports[1].starts_with("docs/page.md:6: layercake describe NAME: "), "{reports:?}");
}
