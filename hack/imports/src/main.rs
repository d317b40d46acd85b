//! Shows imports that make a circle, among the files of a crate or among the rooms of a folder: `imports [--root FOLDER] [CRATE]…`.
//!
//! A room is a file, or a folder with all that is in it (`x.rs` and `x/` are one room). Rooms of a folder stand on floors, each
//! importing from those below it only, and the folder's own file (`mod.rs`, `lib.rs`) is their roof. An import that runs up
//! closes a circle, so circles are what is looked for. `mod x;` is no import; a name that is imported through a re-export
//! counts as one of the file that defines it; code for tests does not count.
//!
//! It also shows files outside a crate that the crate includes; this check covers test code. Without names of crates, it compares two
//! tables in docs/architecture.md with the code: that of crates with their manifests, and that of layers with the kinds of `api` that
//! they name.

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
use tree::Tree;

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

/// How many there are of each.
#[derive(Default)]
struct Findings {
    circles: usize,
    included: usize,
    rows: usize,
}

/// Prints every circle and every included file of others, of the wanted crates, and what is wrong in the table of crates.
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
        let tree = Tree::read(main, &read).map_err(|error| format!("{member}/src/{error}"))?;
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

/// Returns what differs between the table of crates and the manifests. Crates in test/ and hack/ have no row in the table.
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

/// Each source of a crate, tests and examples among them, with each file of others that it includes.
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

/// The Rust files below a folder, with paths from the root.
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

/// The folders that the workspace's `members` name.
fn members(root: &Path) -> Result<Vec<String>, String> {
    let file = root.join("Cargo.toml");
    let text = read(&file)?;
    let list = text.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or_else(|| format!("{}: no list of members", file.display()))?;
    Ok(list.split('"').skip(1).step_by(2).map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests;
