//! Finds the commands in a text.

use crate::command::{is_placeholder, is_subcommand};
use crate::{rust, shell};

/// A command and the line where it starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub line: usize,
    pub args: Vec<String>,
    /// True for a complete command line, false for a mention of the command.
    pub whole: bool,
}

/// Returns the commands in a Markdown page: in code blocks, and in code within sentences.
pub fn of_page(page: &str) -> Vec<Written> {
    let mut found = Vec::new();
    let mut sentences = String::new();
    let mut fence: Option<&str> = None;
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mark = line.trim_start().strip_prefix("```");
        let in_code = mark.is_none() && (fence.is_some() || line.starts_with("    "));
        if let Some(language) = mark {
            fence = if fence.is_some() { None } else { Some(language) };
        }
        sentences += if in_code || mark.is_some() { "" } else { line };
        sentences.push('\n');
        // The lines below a command are its output.
        if !in_code || (fence == Some("console") && !line.starts_with("$ ")) {
            continue;
        }
        let mut command = line.to_owned();
        while let Some(begun) = command.strip_suffix('\\') {
            sentences.push('\n');
            command = format!("{begun} {}", lines.next().map_or("", |(_, next)| next));
        }
        let typed = shell::invocations(&command).into_iter().filter(|args| !args.is_empty());
        found.extend(typed.map(|args| Written { line: index + 1, args, whole: true }));
    }
    found.extend(of_comments(&sentences));
    found
}

/// Returns the commands between backquotes.
pub fn of_comments(text: &str) -> Vec<Written> {
    let mut found = Vec::new();
    // Every other part is between backquotes. Three backquotes have the same effect as one.
    let parts = text.split('`').scan(1, |line, part| {
        let start = *line;
        *line += part.matches('\n').count();
        Some((start, part))
    });
    for (line, code) in parts.skip(1).step_by(2) {
        let code = code.replace('\n', " ");
        found.extend(of_code(&code).into_iter().map(|args| Written { line, args, whole: false }));
    }
    found
}

/// Returns the commands in a Rust source's messages and comments.
pub fn of_source(source: &str) -> Vec<Written> {
    let mut found = Vec::new();
    for piece in rust::pieces(source) {
        let code = piece.literal && piece.text.starts_with("layercake ");
        let args = if code { shell::invocations(&piece.text) } else { of_sentence(&piece.text) };
        found.extend(args.into_iter().map(|args| Written { line: piece.line, args, whole: false }));
        let quoted = of_comments(&piece.text).into_iter();
        found.extend(quoted.map(|written| Written { line: written.line + piece.line - 1, ..written }));
    }
    found
}

/// Returns the commands in code within a sentence: `layercake up --once`, or `up --once` alone.
fn of_code(code: &str) -> Vec<Vec<String>> {
    let mut words = code.split_whitespace();
    let is_short = words.next().is_some_and(is_subcommand) && words.any(|word| word.starts_with("--"));
    if is_short { shell::invocations(&format!("layercake {code}")) } else { shell::invocations(code) }
}

/// Returns the commands in a sentence outside backquotes: `run layercake lint {file} first`. A command ends before a
/// word that is neither a flag, nor a placeholder, nor a flag's value.
fn of_sentence(text: &str) -> Vec<Vec<String>> {
    let outside: Vec<_> = text.split('`').step_by(2).flat_map(str::split_whitespace).collect();
    let starts = outside.iter().enumerate().filter(|(_, word)| **word == "layercake");
    let commands = starts.filter_map(|(at, _)| {
        let rest = &outside[at + 1..];
        let mut args = vec![(*rest.first().filter(|word| is_subcommand(word))?).to_owned()];
        for word in &rest[1..] {
            let is_value = args.last().is_some_and(|last| last.starts_with("--") && !last.contains('='));
            if !(word.starts_with('-') || is_placeholder(word) || is_value) {
                break;
            }
            args.push(word.trim_end_matches(['.', ',', ';', ':']).to_owned());
        }
        Some(args)
    });
    commands.collect()
}

#[test]
fn a_page_has_commands_in_blocks_and_in_sentences() {
    let page = "Run `layercake doctor` or\n`up --once -f a.yaml`, not `up`.\n\n    layercake image build \\\n        -o a\n\n```console\n$ layercake down\nlayercake is down\n```\n";
    let found: Vec<_> =
        of_page(page).into_iter().map(|one| (one.line, one.args.join(" "), one.whole)).collect();
    let expected = [
        (4, "image build -o a", true),
        (8, "down", true),
        (1, "doctor", false),
        (2, "up --once -f a.yaml", false),
    ];
    assert_eq!(found, expected.map(|(line, args, whole)| (line, args.to_owned(), whole)));
}

#[test]
fn a_source_has_commands_in_messages() {
    let source = "// See `layercake up`.\nformat!(\"Run layercake lint {file} first\");\nlet next = \"layercake console {name} -n {namespace}\";\nbail!(\"a stack runs: \\\n    `layercake down` stops it, and layercake is gone\");\n";
    let found: Vec<_> = of_source(source).into_iter().map(|one| (one.line, one.args.join(" "))).collect();
    let expected = [(1, "up"), (2, "lint {file}"), (3, "console {name} -n {namespace}"), (4, "down")];
    assert_eq!(found, expected.map(|(line, args)| (line, args.to_owned())));
}
