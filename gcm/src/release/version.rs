//! Kubernetes distribution versions: `v1.33.1+vmware.1-fips-vkr.2`.
//!
//! The part after `+` isn't semantic versioning, but decides which release is newer, so it has its own order. Users write
//! versions with or without `v`, in full or as a prefix, and object names contain `---` instead of `+`. All functions treat
//! these spellings as equal.

use std::cmp::Ordering;
use std::fmt;

/// A complete version. A newer version compares as greater.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    pre: String,
    build: String,
}

/// The error for a string that isn't a complete version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not a version such as v1.33.1+vmware.1-fips-vkr.2")]
pub struct NotAVersion(String);

impl Version {
    /// Parses a complete version, with or without `v`, spelled with `+` or like a release object name.
    pub fn parse(text: &str) -> Result<Self, NotAVersion> {
        Self::read(text).ok_or_else(|| NotAVersion(text.to_owned()))
    }

    fn read(text: &str) -> Option<Self> {
        let spelt = spelt(text);
        let (core, build) = spelt.split_once('+').unwrap_or((&spelt, ""));
        let (core, pre) = core.split_once('-').unwrap_or((core, ""));
        let mut numbers = core.split('.');
        let mut number = || numbers.next().filter(|n| is_number(n)).and_then(|n| n.parse().ok());
        let (major, minor, patch) = (number()?, number()?, number()?);
        let clean = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        if numbers.next().is_some() || !clean(pre) || !clean(build) || spelt.ends_with(['+', '-', '.']) {
            return None;
        }
        Some(Self { major, minor, patch, pre: pre.to_owned(), build: build.to_owned() })
    }

    /// Returns the Kubernetes minor release, as a pair of major and minor version.
    pub fn minor(&self) -> (u64, u64) {
        (self.major, self.minor)
    }

    /// Returns the Kubernetes version without the vendor suffix: `v1.33.1`.
    pub fn kubernetes_text(&self) -> String {
        format!("v{}.{}.{}", self.major, self.minor, self.patch)
    }

    /// Formats the minor release for messages: `v1.33`.
    pub fn minor_text(&self) -> String {
        format!("v{}.{}", self.major, self.minor)
    }

    /// Returns the release's vendor, such as `vmware` or `layercake`, or an empty string for upstream.
    pub fn vendor(&self) -> &str {
        self.build.split('.').next().unwrap_or_default()
    }

    /// Returns the release object name for this version: `+` becomes `---`.
    pub fn object_name(&self) -> String {
        self.to_string().replace('+', "---")
    }

    /// Returns the version as a node label value, which can't contain `+`: `+` becomes `_`.
    pub fn label_value(&self) -> String {
        self.to_string().replace('+', "_")
    }

    /// Returns every prefix that matches this version, spelled as in object names, from `v1` to the full name.
    ///
    /// A prefix ends where a word or number ends, so v1.15.1 is not a prefix of v1.15.10.
    pub fn prefixes(&self) -> Vec<String> {
        let whole = self.object_name();
        let mut prefixes: Vec<String> = whole
            .char_indices()
            .skip(1)
            .filter(|&(at, c)| !c.is_ascii_alphanumeric() && whole.as_bytes()[at - 1].is_ascii_alphanumeric())
            .map(|(at, _)| whole[..at].to_owned())
            .collect();
        prefixes.push(whole);
        prefixes
    }

    /// Returns true if `hint` is this version or one of its [prefixes](Self::prefixes), in any spelling.
    pub fn matches(&self, hint: &str) -> bool {
        let hint = format!("v{}", spelt(hint).replace('+', "---"));
        self.prefixes().contains(&hint)
    }

    /// Returns the packaging numbers, which decide before the rest of the build metadata: N of `vmware.N`, the rank of the word
    /// `vkr`, `tkg` or `guest`, and the number after this word. Missing numbers are 0.
    fn packaging(&self) -> (u64, u8, u64) {
        let parts: Vec<&str> = parts(&self.build).collect();
        let after = |word: &str| {
            let at = parts.iter().position(|part| *part == word)?;
            parts.get(at + 1)?.parse::<u64>().ok()
        };
        let (family, number) = ["vkr", "tkg", "guest"]
            .iter()
            .zip([3_u8, 2, 1])
            .find_map(|(word, rank)| after(word).map(|number| (rank, number)))
            .unwrap_or_default();
        (after("vmware").unwrap_or_default(), family, number)
    }
}

/// Returns true if one string is a prefix of the other, in any spelling, so that one release can match both.
pub fn are_of_one_release(one: &str, other: &str) -> bool {
    let spell = |text: &str| spelt(text).replace('+', "---");
    let (one, other) = (spell(one), spell(other));
    let begins = |whole: &str, text: &str| {
        whole.strip_prefix(text).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    begins(&one, &other) || begins(&other, &one)
}

/// Normalizes a version: trims it, removes `v`, and replaces `---` with `+`.
fn spelt(text: &str) -> String {
    let text = text.trim();
    text.strip_prefix(['v', 'V']).unwrap_or(text).replacen("---", "+", 1)
}

fn is_number(text: &str) -> bool {
    text == "0" || (!text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty())
}

/// Compares two parts. Hexadecimal parts compare as numbers, because build metadata ends in abbreviated commit hashes. Words
/// are newer than numbers.
fn compare_parts(a: &str, b: &str) -> Ordering {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let number = |part: &str| part.trim_start_matches('0').to_ascii_lowercase();
    match (hex(a), hex(b)) {
        (true, true) => {
            let (a, b) = (number(a), number(b));
            a.len().cmp(&b.len()).then(a.cmp(&b))
        }
        (false, false) => a.cmp(b),
        (number, _) => number.cmp(&false).reverse(),
    }
}

/// Compares strings part by part. The longer string is newer, unless it continues with a pre-release word.
fn compare_texts(a: &str, b: &str) -> Ordering {
    let early = |part: &str| matches!(part, "alpha" | "beta" | "pre" | "rc");
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (Some(more), None) if early(more) => return Ordering::Less,
            (None, Some(more)) if early(more) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Greater,
            (None, Some(_)) => return Ordering::Less,
            (Some(a), Some(b)) => match compare_parts(a, b) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let core = |v: &Self| (v.major, v.minor, v.patch);
        core(self)
            .cmp(&core(other))
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => compare_texts(&self.pre, &other.pre),
            })
            .then_with(|| self.packaging().cmp(&other.packaging()))
            .then_with(|| compare_texts(&self.build, &other.build))
            .then_with(|| (&self.pre, &self.build).cmp(&(&other.pre, &other.build)))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn every_spelling_is_the_same_version() {
        let whole = v("v1.20.12+vmware.1-tkg.1.b9a42f3");
        for text in ["1.20.12+vmware.1-tkg.1.b9a42f3", " v1.20.12---vmware.1-tkg.1.b9a42f3 "] {
            assert_eq!(whole, v(text));
        }
        assert_eq!(whole.object_name(), "v1.20.12---vmware.1-tkg.1.b9a42f3");
        assert_eq!(whole.label_value(), "v1.20.12_vmware.1-tkg.1.b9a42f3");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in
            ["", "v", "v1", "v1.17", "1.17.", "v1.17.4+", "v1.17.4.1", "v1.17.04", "latest", "v1.17.4+a b"]
        {
            assert!(Version::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_names_of_real_releases_are_read() {
        for name in [
            "v1.17.4---vmware.1-tkg.1.0dba899",
            "v1.16.8---vmware.1-tkg.3.60d2ffd",
            "v1.21.6---vmware.1-tkg.1",
            "v1.23.8---vmware.2-tkg.2-zshippable",
            "v1.23.8---vmware.3-tkg.1.ubuntu",
            "v1.24.9---vmware.1-tkg.1-rc.2",
            "v1.26.5---vmware.2-fips.1-tkg.1",
            "v1.30.1---vmware.1-fips-tkg.5",
            "v1.32.0---vmware.6-fips-vkr.2",
        ] {
            assert_eq!(v(name).object_name(), name);
        }
    }

    #[test]
    fn a_hint_matches_at_the_end_of_a_word() {
        let version = v("v1.15.10+vmware.1-tkg.1.c40d30d");
        for hint in [
            "v1",
            "1.15",
            "v1.15.10",
            "1.15.10+vmware.1",
            "v1.15.10---vmware",
            "v1.15.10+vmware.1-tkg.1.c40d30d",
        ] {
            assert!(version.matches(hint), "{hint}");
        }
        for hint in
            ["", "v", "v1.1", "v1.15.1", "v1.15.10+vm", "v1.15.10+vmware.1-tkg.1.c40d30", "v1.15.", "v2"]
        {
            assert!(!version.matches(hint), "{hint}");
        }
    }

    #[test]
    fn prefixes_are_those_of_the_labels() {
        assert_eq!(
            v("v1.24.9+vmware.1-tkg.1").prefixes(),
            [
                "v1",
                "v1.24",
                "v1.24.9",
                "v1.24.9---vmware",
                "v1.24.9---vmware.1",
                "v1.24.9---vmware.1-tkg",
                "v1.24.9---vmware.1-tkg.1"
            ]
        );
    }

    #[test]
    fn newer_is_greater() {
        let ascending = [
            "v1.9.9",
            "v1.10.0-alpha.1",
            "v1.10.0",
            "v1.20.12+vmware.1-tkg.1.b9a42f3",
            "v1.20.12+vmware.1-tkg.1.ba42f30",
            "v1.20.12+vmware.1-tkg.2.0000001",
            "v1.20.12+vmware.2-tkg.1",
            "v1.23.8+vmware.2-tkg.2-zshippable",
            "v1.23.8+vmware.3-tkg.1",
            "v1.24.9+vmware.1-tkg.1-rc.2",
            "v1.24.9+vmware.1-tkg.1-rc.10",
            "v1.24.9+vmware.1-tkg.1",
            "v1.32.0+vmware.6-fips-tkg.9",
            "v1.32.0+vmware.6-fips-vkr.2",
        ];
        for pair in ascending.windows(2) {
            assert!(v(pair[0]) < v(pair[1]), "{} < {}", pair[0], pair[1]);
        }
    }

    fn version() -> impl Strategy<Value = String> {
        "v?[0-9]\\.(0|[1-3][0-9]?)\\.(0|[1-9])(\\+vmware\\.[1-9](-fips(\\.1)?)?-(tkg|vkr)\\.[1-9](\\.[0-9a-f]{7}|-rc\\.1)?)?"
    }

    proptest! {
        #[test]
        fn reading_what_was_written_changes_nothing(text in version()) {
            let read = v(&text);
            prop_assert_eq!(&v(&read.to_string()), &read);
            prop_assert_eq!(&v(&read.object_name()), &read);
            prop_assert!(read.prefixes().iter().all(|prefix| read.matches(prefix)));
        }

        #[test]
        fn the_order_is_total(a in version(), b in version(), c in version()) {
            let (a, b, c) = (v(&a), v(&b), v(&c));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a == b, a.cmp(&b) == Ordering::Equal);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }
    }
}
