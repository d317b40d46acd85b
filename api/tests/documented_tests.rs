//! Tests that the tests which the contributor pages list for each API claim exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The pages, and the minimum number of tests that each page lists.
const PAGES: [(&str, usize); 2] =
    [("docs/contributing/vm-api-tests.md", 100), ("docs/contributing/tkc-api-tests.md", 60)];
/// The folders that contain tests, relative to the repository root.
const TESTED: [&str; 7] = ["api", "cli", "gcm", "kit", "test", "vmop", "vsphere"];

/// Returns the names in the last column of every table whose last header is "tested by".
fn named(page: &str) -> BTreeSet<&str> {
    let mut named = BTreeSet::new();
    let mut tells = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix('|') else {
            tells = false;
            continue;
        };
        let last = row.trim_end_matches('|').rsplit(" | ").next().unwrap_or_default().trim();
        if last == "tested by" {
            tells = true;
        } else if tells {
            named.extend(last.split('`').skip(1).step_by(2));
        }
    }
    named
}

/// Appends all Rust sources below `folder` to `into`.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_page_of_an_api_names_exists() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut written = String::new();
    for folder in TESTED {
        sources(&root.join(folder), &mut written);
    }
    // A rule is a separate test, or a row in a table-driven test.
    let exists =
        |name: &str| [format!("fn {name}("), format!("\"{name}\"")].iter().any(|text| written.contains(text));
    for (path, least) in PAGES {
        let page = std::fs::read_to_string(root.join(path)).unwrap();
        let named = named(&page);
        assert!(named.len() > least, "{path}: {} tests: {named:?}", named.len());
        let missing: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
        assert!(missing.is_empty(), "{path} names tests that are not there: {missing:?}");
    }
}
