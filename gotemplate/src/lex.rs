//! The lexer, which divides a template into text and action tokens.

use bounds::Budget;
use serde_json::Value;

use crate::error::PositionedError;

/// The memory cost of an action in the lexer and the parser, in bytes.
const ACTION_BYTES: usize = 1024;
/// The memory cost of a token in the lexer and the parser, in bytes.
const TOKEN_BYTES: usize = 256;
/// The memory cost of a token that begins another term list (`(` or `|`), in bytes.
const LIST_BYTES: usize = 768;

/// A piece of a template.
#[derive(Debug)]
pub(super) enum Piece {
    /// Text between actions.
    Text(String),
    /// The byte offset of `{{`, and the tokens up to `}}`.
    Action(usize, Vec<Token>),
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// The byte offset in the text.
    pub at: usize,
    /// True if white space precedes the token.
    pub spaced: bool,
    pub kind: TokenKind,
}

/// A token type and its content.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A keyword or a function.
    Word(String),
    /// A field: `.name`.
    Field(String),
    /// The dot: `.`.
    Dot,
    /// A variable: `$name` or `$`.
    Variable(String),
    /// A string or a number.
    Literal(Value),
    /// A punctuation mark: `|`, `(`, `)` or `,`.
    Mark(char),
    /// The declaration operator `:=`.
    Declare,
    /// The assignment operator `=`.
    Assign,
}

/// Divides a template into text and actions.
///
/// The text is charged once for the pieces and once for the tokens.
pub(super) fn lex(text: &str, budget: &Budget) -> Result<Vec<Piece>, PositionedError> {
    budget.spend(text.len().saturating_mul(2)).map_err(|error| PositionedError::exceeded(0, error))?;
    let mut pieces = Vec::new();
    let (mut at, mut trims) = (0, false);
    while let Some(open) = text[at..].find("{{").map(|found| found + at) {
        let inside = open + 2;
        let trims_before = starts_trim(&text[inside..]);
        push_text(&mut pieces, &text[at..open], trims, trims_before);
        let start = if trims_before { inside + 1 } else { inside };
        budget.spend(ACTION_BYTES).map_err(|error| PositionedError::exceeded(open, error))?;
        let (close, trims_after) = action(text, (open, start), &mut pieces, budget)?;
        (at, trims) = (close, trims_after);
    }
    push_text(&mut pieces, &text[at..], trims, false);
    Ok(pieces)
}

/// Returns true if an action trims the text before it. `{{-` does so only if white space follows: `{{-3}}` is a number.
fn starts_trim(inside: &str) -> bool {
    inside.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, trims_start: bool, trims_end: bool) {
    let text = if trims_start { text.trim_start() } else { text };
    let text = if trims_end { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Reads one action. Returns the offset at which the text continues, and true if the action trims that text.
fn action(
    text: &str,
    (open, start): (usize, usize),
    pieces: &mut Vec<Piece>,
    budget: &Budget,
) -> Result<(usize, bool), PositionedError> {
    if let Some(comment) = text[start..].trim_start().strip_prefix("/*") {
        let end = comment.find("*/").ok_or_else(|| PositionedError::new(open, "the comment has no end"))?;
        let after = text.len() - comment.len() + end + 2;
        return closed(text, after).ok_or_else(|| PositionedError::new(open, "a comment must end with */}}"));
    }
    let mut tokens = Vec::new();
    let mut at = start;
    loop {
        let rest = &text[at..];
        let skipped = rest.len() - rest.trim_start().len();
        if let Some(end) = closed(text, at) {
            pieces.push(Piece::Action(open, tokens));
            return Ok(end);
        }
        at += skipped;
        if at >= text.len() {
            return Err(PositionedError::new(open, "the action has no }}"));
        }
        let (kind, length) = token(&text[at..]).map_err(|what| PositionedError::new(at, what))?;
        let bytes = if matches!(kind, TokenKind::Mark('(' | '|')) { LIST_BYTES } else { TOKEN_BYTES };
        budget.spend(bytes).map_err(|error| PositionedError::exceeded(at, error))?;
        tokens.push(Token { at, spaced: skipped > 0, kind });
        at += length;
    }
}

/// If only white space precedes the closing `}}`, returns the same as [`action`], otherwise `None`. `at` is the current offset in
/// the text.
fn closed(text: &str, at: usize) -> Option<(usize, bool)> {
    let rest = &text[at..];
    let trimmed = rest.trim_start();
    let after = |tail: &str| text.len() - tail.len();
    if let Some(tail) = trimmed.strip_prefix("}}") {
        return Some((after(tail), false));
    }
    let spaced = trimmed.len() < rest.len();
    let tail = trimmed.strip_prefix("-}}").filter(|_| spaced)?;
    Some((after(tail), true))
}

fn token(rest: &str) -> Result<(TokenKind, usize), &'static str> {
    let first = rest.chars().next().unwrap_or_default();
    let name = |skip: usize| {
        let tail = &rest[skip..];
        let end = tail.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tail.len());
        tail[..end].to_owned()
    };
    Ok(match first {
        ':' if rest.starts_with(":=") => (TokenKind::Declare, 2),
        '=' => (TokenKind::Assign, 1),
        '|' | '(' | ')' | ',' => (TokenKind::Mark(first), 1),
        '.' => match name(1) {
            name if name.is_empty() => (TokenKind::Dot, 1),
            name => (TokenKind::Field(name.clone()), 1 + name.len()),
        },
        '$' => (TokenKind::Variable(name(1)), 1 + name(1).len()),
        '"' => quoted(rest)?,
        '`' => {
            let end = rest[1..].find('`').ok_or("the raw string has no end")?;
            (TokenKind::Literal(rest[1..=end].into()), end + 2)
        }
        c if c.is_ascii_digit() || c == '-' || c == '+' => number(rest)?,
        c if c.is_alphabetic() || c == '_' => (TokenKind::Word(name(0)), name(0).len()),
        _ => return Err("a character here has no meaning in a template"),
    })
}

fn number(rest: &str) -> Result<(TokenKind, usize), &'static str> {
    let tail = &rest[1..];
    let end = 1 + tail.find(|c: char| !(c.is_alphanumeric() || c == '.')).unwrap_or(tail.len());
    let text = rest[..end].trim_start_matches('+');
    let value = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from));
    let value = value.map_err(|_| "it is not a number")?;
    Ok((TokenKind::Literal(value), end))
}

fn quoted(rest: &str) -> Result<(TokenKind, usize), &'static str> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => break,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let literal = &rest[..=at];
                let text: String =
                    serde_json::from_str(literal).map_err(|_| "the string has an unknown escape")?;
                return Ok((TokenKind::Literal(text.into()), at + 1));
            }
            _ => {}
        }
    }
    Err("the string has no end")
}
