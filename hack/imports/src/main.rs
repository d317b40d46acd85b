//! Finds import cycles between a crate's files or between a folder's rooms: `imports [--root FOLDER] [CRATE]…`.
//!
//! A room is a file, or a folder with all its files (`x.rs` and `x/` are one room). A folder's rooms form layers, and
//! each may import only from the layers below it. The folder's own file (`mod.rs`, `lib.rs`) is their roof. An import
//! in the other direction closes a cycle. `mod x;` doesn't count as an import. A name that is imported through a
//! re-export counts as an import from the file that defines it. Test code doesn't count.
//!
//! The program also reports files outside a crate that the crate includes, in test code too. Without crate names, it
//! compares two tables in docs/architecture.md with the code: the crate table with the manifests, and the layer table
//! with the `api` kinds that crates use.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod circles;
mod crates;
mod includes;
mod layers;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use includes::Package;
use tree::ModuleTree;

fn main() -> ExitCode {
    match check() {
        Ok(Findings { circles: 0, included: 0, rows: 0 }) => ExitCode::SUCCESS,
        Ok(Findings { circles, included, rows }) => {
            eprintln!(
                "circles of imports: {circles}, files of others included: {included}, differences from the tables of crates and layers: {rows}; {} has the rules",
                crates::PAGE
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Findings by kind.
#[derive(Default)]
struct Findings {
    circles: usize,
    included: usize,
    rows: usize,
}

/// Prints all cycles and foreign includes in the selected crates. Without a selection, also prints table differences.
fn check() -> Result<Findings, String> {
    let mut root = PathBuf::from(".");
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--root" => root = arguments.next().ok_or("--root needs a folder")?.into(),
            _ => wanted.push(argument.trim_end_matches('/').to_owned()),
        }
    }
    let members = members(&root)?;
    if let Some(unknown) = wanted.iter().find(|wanted| !members.contains(wanted)) {
        return Err(format!("{unknown} is no crate of the workspace; there are {}", members.join(", ")));
    }
    let mut findings = Findings::default();
    let mut named = BTreeMap::new();
    for member in members.iter().filter(|member| wanted.is_empty() || wanted.contains(member)) {
        let src = root.join(member).join("src");
        let main = if src.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        let read = |path: &Path| std::fs::read_to_string(src.join(path)).ok();
        let tree = ModuleTree::read(main, &read).map_err(|error| format!("{member}/src/{error}"))?;
        if member == "api" {
            named.extend(layers::named_by_folders(&tree));
        } else if !member.contains('/') {
            named.insert(member.clone(), layers::named(&tree));
        }
        for circle in circles::find(&tree) {
            println!("{member}: {circle}");
            findings.circles += 1;
        }
        for (file, path) in foreign_files(&root, member)? {
            println!("{member}: {} includes {}, which is not of this crate", file.display(), path.display());
            findings.included += 1;
        }
    }
    if wanted.is_empty() {
        let page = read(&root.join(crates::PAGE))?;
        let differences = table_differences(&root, &page, &members)?;
        for difference in differences.into_iter().chain(layers::differences(&page, &named)) {
            println!("{}: {difference}", crates::PAGE);
            findings.rows += 1;
        }
    }
    Ok(findings)
}

/// Returns the differences between the crate table and the manifests. Crates in test/ and hack/ aren't in the table.
fn table_differences(root: &Path, page: &str, members: &[String]) -> Result<Vec<String>, String> {
    let shipped = members.iter().filter(|member| !member.contains('/'));
    let manifests = shipped.map(|member| {
        let manifest = read(&root.join(member).join("Cargo.toml"))?;
        Ok((member.as_str(), manifest))
    });
    let manifests = manifests.collect::<Result<BTreeMap<_, _>, String>>()?;
    Ok(crates::differences(page, &manifests))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns each source file in a crate (tests and examples too) with each foreign file that it includes.
fn foreign_files(root: &Path, member: &str) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let manifest = root.join(member).join("Cargo.toml");
    let text = read(&manifest)?;
    let package = Package::new(member, &text);
    let mut found = Vec::new();
    for file in package.folders().map(|folder| sources(root, folder)).collect::<Result<Vec<_>, _>>()?.concat()
    {
        let path = root.join(&file);
        let text = read(&path)?;
        found.extend(package.foreign_files(&file, &text)?.into_iter().map(|path| (file.clone(), path)));
    }
    Ok(found)
}

/// Returns the Rust files below a folder, relative to the root.
fn sources(root: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() && entry.file_name() != "target" {
            files.extend(sources(root, &path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the workspace `members`.
fn members(root: &Path) -> Result<Vec<String>, String> {
    let file = root.join("Cargo.toml");
    let text = read(&file)?;
    let list = text.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or_else(|| format!("{}: no list of members", file.display()))?;
    Ok(list.split('"').skip(1).step_by(2).map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests;
