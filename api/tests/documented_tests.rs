//! The pages for contributors name a test for each claim of the API pages; each test exists.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each page, and how many tests it names at least.
const PAGES: [(&str, usize); 2] =
    [("docs/contributing/vm-api-tests.md", 100), ("docs/contributing/tkc-api-tests.md", 60)];
/// Where tests are, from the root of the tree.
const TESTED: [&str; 7] = ["api", "cli", "gcm", "kit", "test", "vmop", "vsphere"];

/// The names in the last column of every table that says what something is "tested by".
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

/// All Rust sources below `folder`, one after another.
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
    // A rule is a test of its own, or a row of a table that one test goes through.
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
