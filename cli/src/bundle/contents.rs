//! `contents.txt`: lists the files in a bundle, the removals, and the missing parts with reasons. This module doesn't
//! perform I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::archive::Entry;
use super::select::LeftOut;
use super::shapes::Counts;
use super::source::Unread;
use crate::terminal::output::shown;

/// Everything that `contents.txt` reports besides the files.
#[derive(Debug, Default)]
pub struct Contents {
    /// The lines at the top: version, API server, namespaces.
    pub made: Vec<String>,
    left_out: BTreeMap<String, LeftOut>,
    missed: BTreeMap<(String, String), Vec<String>>,
    not_served: BTreeSet<String>,
    shortened: Vec<String>,
}

impl Contents {
    /// Returns the counters for skipped fields of this kind.
    pub fn left_out_of(&mut self, kind: &str) -> &mut LeftOut {
        self.left_out.entry(kind.to_owned()).or_default()
    }

    /// Records why something could not be read. `namespace` is `None` for all namespaces and for cluster-scoped objects.
    pub fn miss(&mut self, what: &str, namespace: Option<&str>, why: &Unread) {
        if matches!(why, Unread::NotServed) {
            self.not_served.insert(what.to_owned());
        } else {
            let places = self.missed.entry((what.to_owned(), why.to_string())).or_default();
            places.extend(namespace.map(str::to_owned));
        }
    }

    /// Records that a part of the bundle, such as a log or a report, failed with `error`.
    pub fn miss_failed(&mut self, what: &str, namespace: Option<&str>, error: &anyhow::Error) {
        self.miss(what, namespace, &Unread::Failed(format!("{error:#}")));
    }

    /// Records that the part `what` of the bundle was truncated.
    pub fn shorten(&mut self, what: &str) {
        self.shortened.push(what.to_owned());
    }

    /// Returns one line for each item that could not be read and its reason. Kinds that aren't served are excluded.
    pub fn missed(&self) -> Vec<String> {
        let line = |((what, why), places): (&(String, String), &Vec<String>)| match places.as_slice() {
            [] => format!("{what}: {why}"),
            [one] => format!("{what} in namespace {one}: {why}"),
            several => format!("{what} in namespaces {}: {why}", several.join(", ")),
        };
        self.missed.iter().map(line).collect()
    }

    pub fn text(&self, entries: &[Entry], omitted: usize) -> String {
        let mut text = String::from("Contents of this bundle, and what it leaves out\n\n");
        for line in &self.made {
            let _ = writeln!(text, "{line}");
        }
        let section = |text: &mut String, title: &str, lines: &[String]| {
            let _ = writeln!(text, "\n{title}\n{}", "-".repeat(title.len()));
            for line in lines {
                let _ = writeln!(text, "{line}");
            }
            if lines.is_empty() {
                text.push_str("nothing\n");
            }
        };
        section(&mut text, "Could not be read", &self.missed());
        let not_served: Vec<_> = self.not_served.iter().cloned().collect();
        section(&mut text, "Kinds that this API server does not serve", &not_served);
        let full = (omitted > 0).then(|| format!("{omitted} files: the bundle has reached its maximum size"));
        let shortened: Vec<_> = self.shortened.iter().cloned().chain(full).collect();
        section(&mut text, "Shortened", &shortened);
        let scrubbed =
            total(entries).iter().map(|(kind, count)| format!("{count:>8}   {kind}")).collect::<Vec<_>>();
        section(&mut text, "Removed from texts", &scrubbed);
        section(&mut text, "Files: bytes, number of removals, path", &files(entries));
        section(&mut text, "Fields left out, as they are not on the list: times, kind, path", &self.fields());
        shown(&text)
    }

    fn fields(&self) -> Vec<String> {
        let each = self.left_out.iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path)));
        each.map(|(kind, (path, count))| format!("{count:>8}   {kind}   {path}")).collect()
    }
}

fn files(entries: &[Entry]) -> Vec<String> {
    let line = |Entry { path, bytes, scrubbed }: &Entry| {
        format!("{bytes:>8}   {:>5}   {path}", scrubbed.values().sum::<usize>())
    };
    entries.iter().map(line).collect()
}

/// Sums the removals in all files by secret type.
pub fn total(entries: &[Entry]) -> Counts {
    let mut total = Counts::new();
    for (kind, count) in entries.iter().flat_map(|entry| &entry.scrubbed) {
        *total.entry(kind).or_default() += count;
    }
    total
}
