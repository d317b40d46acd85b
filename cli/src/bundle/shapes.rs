//! What a secret looks like where its value isn't known. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use regex::{Captures, Regex, RegexSet};

/// The kind of a value that a Secret has.
pub const SECRET_VALUE: &str = "value of a Secret";

/// How often what kind of secret was taken out.
pub type Counts = BTreeMap<&'static str, usize>;

/// What stands where something was taken out.
pub fn marker(kind: &str) -> String {
    format!("[scrubbed: {kind}]")
}

/// Names of settings whose value is a secret.
const NAMES: &str = r"pass(?:word|wd|phrase)?|pwd|secret|secret[-_]?key|api[-_]?key|access[-_]?key|client[-_]?secret|private[-_]?key|certificate[-_]?key|(?:[a-z]+[-_])?token|credentials?|client[-_]key[-_]data|user[-_]?data|vendor[-_]?data|session(?:[-_]?(?:id|key|cookie))|vmware[-_]soap[-_]session|vmware[-_]api[-_]session[-_]id|jsessionid|ticket|signature|sig";

/// A kind of secret and the pattern of it. What is in the group `keep` stays.
type Pattern = (&'static str, String);

/// What goes over several lines, each with a text that is in all of its kind.
fn block_patterns() -> Vec<(&'static str, Pattern)> {
    let pattern = |mark, kind, pattern: &str| (mark, (kind, pattern.to_owned()));
    vec![
        pattern("-----BEGIN ", "PEM", r"-----BEGIN [A-Z0-9 ]+-----(?s:.*?)(?:-----END [A-Z0-9 ]+-----|\z)"),
        // The end of one whose beginning was cut off.
        pattern(
            "-----END ",
            "PEM",
            r"(?:[A-Za-z0-9+/=]{16,}(?:\\n|\s)+)*[A-Za-z0-9+/=]*(?:\\n|\s)*-----END [A-Z0-9 ]+-----",
        ),
        // A line of such data begins with a space, a dash, a comment or a key.
        pattern(
            "#cloud-config",
            "cloud-config",
            r"#cloud-config[^\n]*(?:\n(?:[ \t#-][^\n]*|[a-z_]+:[^\n]*|))*",
        ),
    ]
}

/// What is on one line, in the order in which it is looked for.
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
        // <password>…</password>, as SOAP has it.
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

/// All shapes, ready to look for.
pub struct Shapes {
    blocks: Vec<(&'static str, &'static str, Regex)>,
    lines: Vec<(&'static str, Regex)>,
    /// Which of `lines` a line has: most have none, and are looked at once.
    any: RegexSet,
}

impl Shapes {
    /// Fails if a pattern is no regular expression.
    pub fn new() -> Result<Self> {
        let (blocks, lines) = (block_patterns(), line_patterns());
        let any = RegexSet::new(lines.iter().map(|(_, pattern)| pattern)).context("patterns of secrets")?;
        let blocks = blocks.iter().map(|(mark, (kind, pattern))| Ok((*mark, *kind, Regex::new(pattern)?)));
        let lines = lines.iter().map(|(kind, pattern)| Ok((*kind, Regex::new(pattern)?)));
        Ok(Self { blocks: blocks.collect::<Result<_>>()?, lines: lines.collect::<Result<_>>()?, any })
    }

    /// The text without what looks like a secret.
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
        // The digest of an image or of a CA's key is public.
        "key" => keep == "sha256:",
        // A name has no capitals, a path has no digits and capitals without a dot in so many characters.
        "base64" => {
            !(has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit))
        }
        // Taken out already.
        _ => value.trim_start_matches(['"', '\'', '\\']).starts_with("[scrubbed"),
    }
}
