//! Planted circles are found, and what is none is not.

use std::collections::BTreeSet;
use std::path::Path;

use crate::circles;
use crate::tree::Tree;

/// The circles of a crate that consists of these files.
fn circles(files: &[(&str, &str)]) -> BTreeSet<String> {
    let read = |path: &Path| {
        files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
    };
    circles::find(&Tree::read("lib.rs", &read).unwrap())
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
