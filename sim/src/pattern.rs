//! Name patterns in which `*` matches any string, including the empty string.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// A set of patterns that clones share. Tests change the set while guests wait for changes.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Arc<watch::Sender<BTreeSet<String>>>);

impl Patterns {
    pub(super) fn add(&self, pattern: &str) {
        self.0.send_if_modified(|all| all.insert(pattern.to_owned()));
    }

    pub(super) fn remove(&self, pattern: &str) {
        self.0.send_if_modified(|all| all.remove(pattern));
    }

    /// Returns true if the name matches at least one pattern.
    pub(super) fn fit(&self, name: &str) -> bool {
        self.0.borrow().iter().any(|pattern| fits(pattern, name))
    }

    /// Waits until the name doesn't match any pattern.
    pub(super) async fn fit_no_more(&self, name: &str) {
        let mut all = self.0.subscribe();
        // `self` owns the sender, so the wait can't fail.
        drop(all.wait_for(|all| !all.iter().any(|pattern| fits(pattern, name))).await);
    }
}

/// Returns true if the whole name matches the pattern.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => match name.strip_prefix(start) {
            None => false,
            Some(tail) => {
                tail.char_indices().map(|(at, _)| at).chain([tail.len()]).any(|at| fits(rest, &tail[at..]))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_as_long_as_its_pattern_is_there() {
        let patterns = Patterns::default();
        let shared = patterns.clone();
        patterns.add("c-*");
        assert!(shared.fit("c-1") && !shared.fit("d-1"));
        patterns.remove("c-*");
        assert!(!shared.fit("c-1"));
    }

    #[test]
    fn patterns_hold_names() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("c-control-plane-*", "c-control-plane-x1", true),
            ("c-control-plane-*", "c-workers-x1", false),
            ("*-plane-*1", "c-control-plane-x1", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
