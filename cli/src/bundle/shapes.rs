//! Finds secrets by their shape, without knowing the value. This module doesn't perform I/O.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use regex::{Captures, Regex, RegexSet};

/// The secret type for known Secret values.
pub const SECRET_VALUE: &str = "value of a Secret";

/// Removal counts by secret type.
pub type Counts = BTreeMap<&'static str, usize>;

/// Returns the marker that replaces a secret in the text. `kind` is the secret type.
pub fn marker(kind: &str) -> String {
    format!("[scrubbed: {kind}]")
}

/// Names of settings that hold secrets.
const NAMES: &str = r"pass(?:word|wd|phrase)?|pwd|secret|secret[-_]?key|api[-_]?key|access[-_]?key|client[-_]?secret|private[-_]?key|certificate[-_]?key|(?:[a-z]+[-_])?token|credentials?|client[-_]key[-_]data|user[-_]?data|vendor[-_]?data|session(?:[-_]?(?:id|key|cookie))|vmware[-_]soap[-_]session|vmware[-_]api[-_]session[-_]id|jsessionid|ticket|signature|sig";

/// A secret type and its pattern. Text that the capture group `keep` matches stays in the output.
type Pattern = (&'static str, String);

/// Returns the multi-line patterns, each with a substring that every match contains.
fn block_patterns() -> Vec<(&'static str, Pattern)> {
    let pattern = |mark, kind, pattern: &str| (mark, (kind, pattern.to_owned()));
    vec![
        pattern("-----BEGIN ", "PEM", r"-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|\z)"),
        // A PEM block without its beginning.
        pattern(
            "-----END ",
            "PEM",
            r"(?:[A-Za-z0-9+/=]{16,}(?:\\n|\s)+)*[A-Za-z0-9+/=]*(?:\\n|\s)*-----END [A-Z0-9 ]+-----",
        ),
        // Each cloud-config line begins with a space, dash, comment or key.
        pattern(
            "#cloud-config",
            "cloud-config",
            r"#cloud-config[^\n]*(?:\n(?:[ \t#-][^\n]*|[a-z_]+:[^\n]*|))*",
        ),
    ]
}

/// Returns the single-line patterns in search order.
fn line_patterns() -> Vec<Pattern> {
    let pattern = |kind, pattern: &str| (kind, pattern.to_owned());
    vec![
        pattern(
            "URL with credentials",
            r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"'<>]+(?:/[^\s/@"'<>]+)?@"#,
        ),
        pattern("JWT", r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
        pattern("cookie", r#"(?i)(?P<keep>(?-u:\b)(?:set-)?cookie["'\\]*\s*[:=]\s*).+"#),
        pattern(
            "authorization",
            r#"(?i)(?P<keep>(?-u:\b)authorization["'\\]*\s*[:=]\s*)["'\\]*(?:[a-z]+\s+)?[^\s"'\\,}]+"#,
        ),
        pattern("bearer token", r"(?i)(?P<keep>(?-u:\b)bearer\s+)[A-Za-z0-9._~+/=-]{16,}"),
        pattern("session", r"(?i)(?P<keep>(?-u:\b)session\s+)[0-9a-f]{8}-[0-9a-f-]{20,}"),
        pattern("ticket", r"(?i)(?-u:\b)cst-[A-Za-z0-9-]{8,}|(?P<keep>/ticket/)[A-Za-z0-9]+"),
        // SOAP elements: <password>…</password>
        ("setting", format!(r"(?i)(?P<keep><(?:[a-z0-9]+:)?(?:user)?(?:{NAMES})(?:\s[^<>]*)?>)[^<]+")),
        // password=… "token": "…" --certificate-key …
        (
            "setting",
            format!(
                r#"(?i)(?P<keep>(?:(?-u:\b)|[_-])(?:{NAMES})\\?["']?\s*(?:=|:\\?["']|:)\s*|--(?:{NAMES})[ =])(?:\\"[^"]*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'}}\]<]+)"#
            ),
        ),
        pattern("join token", r"(?-u:\b)[a-z0-9]{6}\.[a-z0-9]{16}(?-u:\b)"),
        pattern(
            "key",
            r"AGE-SECRET-KEY-1[A-Z0-9]+|(?-u:\b)AKIA[0-9A-Z]{16}(?-u:\b)|(?-u:\b)gh[pousr]_[A-Za-z0-9]{20,}",
        ),
        pattern("password hash", r"\$(?:[1-6]|2[aby]|y|argon2id?)\$[^\s:]{8,}"),
        pattern("key", r"(?P<keep>sha256:)[0-9a-f]{64}(?-u:\b)|(?-u:\b)[0-9a-f]{64,}(?-u:\b)"),
        pattern("base64", r"[A-Za-z0-9+/]{64,}={0,2}|[A-Za-z0-9_-]{64,}={0,2}"),
    ]
}

/// The compiled patterns.
pub struct Shapes {
    /// A substring that every match contains, the secret type, and the pattern.
    blocks: Vec<(&'static str, &'static str, Regex)>,
    /// The secret type and the pattern.
    lines: Vec<(&'static str, Regex)>,
    /// The patterns in `lines` as a set. Most lines don't match any pattern, so a single scan with the set is enough
    /// for them.
    any: RegexSet,
}

impl Shapes {
    /// Compiles the patterns. Fails if a pattern isn't a valid regular expression.
    pub fn new() -> Result<Self> {
        let (blocks, lines) = (block_patterns(), line_patterns());
        let any = RegexSet::new(lines.iter().map(|(_, pattern)| pattern)).context("patterns of secrets")?;
        let blocks = blocks.iter().map(|(mark, (kind, pattern))| Ok((*mark, *kind, Regex::new(pattern)?)));
        let lines = lines.iter().map(|(kind, pattern)| Ok((*kind, Regex::new(pattern)?)));
        Ok(Self { blocks: blocks.collect::<Result<_>>()?, lines: lines.collect::<Result<_>>()?, any })
    }

    /// Replaces everything in `text` that looks like a secret.
    pub fn scrub(&self, mut text: String, counts: &mut Counts) -> String {
        for (mark, kind, regex) in &self.blocks {
            if text.contains(mark) {
                text = replace(&text, kind, regex, counts).into_owned();
            }
        }
        if !self.any.is_match(&text) {
            return text;
        }
        text.split_inclusive('\n').map(|line| self.scrub_line(line, counts)).collect()
    }

    fn scrub_line<'a>(&self, line: &'a str, counts: &mut Counts) -> Cow<'a, str> {
        let mut line = Cow::Borrowed(line);
        for at in self.any.matches(&line) {
            let (kind, regex) = &self.lines[at];
            let replaced = match replace(&line, kind, regex, counts) {
                Cow::Owned(replaced) => Some(replaced),
                Cow::Borrowed(_) => None,
            };
            if let Some(replaced) = replaced {
                line = Cow::Owned(replaced);
            }
        }
        line
    }
}

fn replace<'a>(text: &'a str, kind: &'static str, regex: &Regex, counts: &mut Counts) -> Cow<'a, str> {
    regex.replace_all(text, |found: &Captures| replacement(kind, found, counts))
}

fn replacement(kind: &'static str, found: &Captures, counts: &mut Counts) -> String {
    let whole = &found[0];
    let keep = found.name("keep").map_or("", |keep| keep.as_str());
    let value = &whole[keep.len()..];
    if is_harmless(kind, keep, value) {
        return whole.to_owned();
    }
    *counts.entry(kind).or_default() += 1;
    let at = if kind == "URL with credentials" { "@" } else { "" };
    format!("{keep}{}{at}", marker(kind))
}

fn is_harmless(kind: &str, keep: &str, value: &str) -> bool {
    let has = |wanted: fn(&char) -> bool| value.chars().any(|c| wanted(&c));
    match kind {
        // Image and CA key digests are public.
        "key" => keep == "sha256:",
        // Kubernetes names don't contain uppercase letters. Long paths with uppercase letters and digits contain a dot,
        // which ends the match.
        "base64" => {
            !(has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit))
        }
        // The value was scrubbed already.
        _ => value.trim_start_matches(['"', '\'', '\\']).starts_with("[scrubbed"),
    }
}
