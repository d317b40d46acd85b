//! Checks that planted cycles and foreign includes are found, without false positives.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::circles;
use crate::includes::Package;
use crate::tree::ModuleTree;

/// Returns the cycles in a crate that consists of these files.
fn circles(files: &[(&str, &str)]) -> BTreeSet<String> {
    let read = |path: &Path| {
        files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    };
    circles::find(&ModuleTree::read("lib.rs", &read).unwrap())
}

fn lines(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::Two; pub struct One(Two);"),
        ("b.rs", "pub struct Two; fn one() -> super::a::One { todo!() }"),
    ]);
    assert_eq!(found, lines(&["a.rs -> b.rs (Two) -> a.rs (One)"]));
}

#[test]
fn imports_in_one_direction_are_none() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; use a::One;"),
        ("a.rs", "use crate::b; pub struct One(b::Two);"),
        ("b.rs", "use std::fmt; pub struct Two;"),
    ]);
    assert_eq!(found, lines(&[]));
}

#[test]
fn an_import_that_runs_up_between_folders_is_a_circle_of_rooms() {
    let found = circles(&[
        ("lib.rs", "mod low; mod high;"),
        ("low/mod.rs", "pub mod leaf; mod other;"),
        ("low/leaf.rs", "pub struct Leaf;"),
        ("low/other.rs", "use crate::high::leaf::Top;"),
        ("high.rs", "pub mod leaf; mod user;"),
        ("high/leaf.rs", "pub struct Top;"),
        ("high/user.rs", "use crate::low::leaf::Leaf;"),
    ]);
    assert_eq!(found, lines(&["high/ -> low/ (high/user.rs: Leaf) -> high/ (low/other.rs: Top)"]));
}

#[test]
fn a_room_may_not_use_what_its_roof_defines_where_the_roof_uses_the_room() {
    let files =
        [("lib.rs", "mod a; use a::run; pub struct Error;"), ("a.rs", "use super::Error; pub fn run() {}")];
    assert_eq!(circles(&files), lines(&["a.rs -> lib.rs (Error) -> a.rs (run)"]));
    let declared = [("lib.rs", "mod a; pub struct Error;"), files[1]];
    assert_eq!(circles(&declared), lines(&[]));
}

#[test]
fn a_reexport_stands_for_the_file_that_defines_the_name() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; pub use a::One; pub use b::*; pub struct Error;"),
        ("a.rs", "use crate::{Error, Two}; pub struct One(Two, Error);"),
        ("b.rs", "pub struct Two;"),
    ]);
    assert_eq!(found, lines(&[]));
}

#[test]
fn a_reexport_that_the_file_uses_itself_counts() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; pub use a::One; pub use b::*; pub struct Error; fn f(_: One, _: Two) {}"),
        ("a.rs", "pub struct One(crate::Error);"),
        ("b.rs", "pub struct Two(crate::Error);"),
    ]);
    assert_eq!(
        found,
        lines(&["a.rs -> lib.rs (Error) -> a.rs (One)", "b.rs -> lib.rs (Error) -> b.rs (Two)"])
    );
}

#[test]
fn paths_in_macros_and_attributes_count() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "fn f() { println!(\"{}\", [crate::b::two()].len()) } pub fn one() {}"),
        ("b.rs", "pub fn two() {} #[derive(Copy)] struct S { #[serde(with = \"crate::c::seconds\")] s: u8 }"),
        ("c.rs", "use crate::a; pub fn seconds() { a::one() }"),
    ]);
    assert_eq!(found, lines(&["a.rs -> b.rs (two) -> c.rs (seconds) -> a.rs (one)"]));
}

#[test]
fn tests_do_not_count() {
    let found = circles(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod fixture;"),
        ("a.rs", "use crate::b::Two; pub struct One(Two);"),
        (
            "b.rs",
            "pub struct Two; #[cfg(test)] mod tests { use crate::a::One; } #[cfg(test)] use crate::a::One;",
        ),
    ]);
    assert_eq!(found, lines(&[]));
}

/// Returns the foreign files that a package's file includes.
fn foreign_files(package: &Package, file: &str, text: &str) -> Vec<PathBuf> {
    package.foreign_files(Path::new(file), text).unwrap()
}

#[test]
fn a_crate_includes_its_own_files() {
    let text = r#"
        #![doc = include_str!("../README.md")]
        //! Of include_str!("../../other/file.txt") and #[path = "../../other.rs"] this only speaks.
        static FOLDER: Dir = include_dir!("$CARGO_MANIFEST_DIR/data/../more");
        const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/text"));
        #[cfg(test)] #[path = "other_tests.rs"] mod tests;
        const READ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/file.yaml");
    "#;
    assert_eq!(foreign_files(&Package::new("some", ""), "some/src/lib.rs", text), Vec::<PathBuf>::new());
}

#[test]
fn files_of_others_are_found_in_tests_too() {
    let text = r#"
        static FOLDER: Dir = include_dir!("$CARGO_MANIFEST_DIR/../other/data");
        #[path = "../../other/src/module.rs"] mod module;
        #[cfg(test)] mod tests {
            fn text() { parse(include_str!("../../../other/a.txt")); }
            const BYTES: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../some-more/b"));
        }
    "#;
    let found = foreign_files(&Package::new("deep/some", ""), "deep/some/src/lib.rs", text);
    let expected =
        ["deep/other/data", "deep/other/src/module.rs", "other/a.txt", "deep/some-more/b"].map(PathBuf::from);
    assert_eq!(found, expected);
}

#[test]
fn a_path_outside_the_crate_is_its_targets_or_has_an_owner() {
    let text = r#"const CONFIG: Dir = include_dir!("$CARGO_MANIFEST_DIR/../config");"#;
    assert_eq!(
        foreign_files(&Package::new("components", ""), "components/src/config.rs", text),
        Vec::<PathBuf>::new()
    );
    assert_eq!(foreign_files(&Package::new("kit", ""), "kit/src/config.rs", text), [PathBuf::from("config")]);
    let text = r#"const PAGES: [&str; 2] = [include_str!("../../docs/checks.md"), include_str!("../../docs/cli.md")];"#;
    let pages = ["docs/checks.md", "docs/cli.md"].map(PathBuf::from);
    assert_eq!(foreign_files(&Package::new("cli", ""), "cli/src/doctor.rs", text), pages[1..]);
    assert_eq!(foreign_files(&Package::new("kit", ""), "kit/src/doctor.rs", text), pages);
    let manifest = "[[test]]\nname = \"stories\"\npath = \"../test/stories/main.rs\"\n";
    let package = Package::new("cli", manifest);
    assert_eq!(package.folders().collect::<Vec<_>>(), [Path::new("cli"), Path::new("test/stories")]);
    let text = r#"const ONE: &str = include_str!("one.txt"); const TWO: &str = include_str!("../two.txt");"#;
    assert_eq!(foreign_files(&package, "test/stories/main.rs", text), [PathBuf::from("test/two.txt")]);
}
