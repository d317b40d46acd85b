//! Finds the texts in Rust sources: string literals and comments.

/// A text and the line on which it starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub line: usize,
    pub literal: bool,
    pub text: String,
}

/// Returns the string literals and line comments in a source.
pub fn pieces(source: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let at = source.len() - rest.len();
        let follows_name = source[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let (text, literal, length) = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            (Some(rest[..length].trim_start_matches(['/', '!']).to_owned()), false, length)
        } else if letter == '"' {
            let (text, length) = quoted(rest);
            (Some(text), true, length)
        } else if let Some((text, length)) = raw(rest).filter(|_| !follows_name) {
            (Some(text), true, length)
        } else if letter == '\'' {
            (None, false, character(rest))
        } else {
            (None, false, letter.len_utf8())
        };
        if let Some(text) = text {
            pieces.push(Piece { line: source[..at].matches('\n').count() + 1, literal, text });
        }
        rest = &rest[length..];
    }
    pieces
}

/// Returns a literal's text and its length in the source.
fn quoted(source: &str) -> (String, usize) {
    let mut text = String::new();
    let mut letters = source.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, at + 1),
            '\\' => match letters.next().map(|(_, escaped)| escaped) {
                // The next line's indentation isn't part of the text either.
                Some('\n') => while letters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            _ => text.push(letter),
        }
    }
    (text, source.len())
}

/// Returns the text of the raw string `r"…"` or `r#"…"#`, and its length in the source. Returns `None` for other
/// literals.
fn raw(source: &str) -> Option<(String, usize)> {
    let after = source.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &after[..hashes]);
    let length = body.find(&end)?;
    Some((body[..length].to_owned(), 2 + hashes + length + end.len()))
}

/// Returns the length of a character literal, or of a lifetime's first letter.
fn character(source: &str) -> usize {
    let mut letters = source.char_indices().skip(1);
    let Some((_, letter)) = letters.next() else { return 1 };
    if letter == '\\' {
        let escaped = letters.next().map_or(source.len(), |(at, escaped)| at + escaped.len_utf8());
        return source[escaped..].find('\'').map_or(source.len(), |end| escaped + end + 1);
    }
    letters.next().filter(|(_, end)| *end == '\'').map_or(1, |(at, _)| at + 1)
}

#[test]
fn literals_and_comments_are_found_with_their_lines() {
    let source = "fn a<'a>() { x('\"', '\\'', b\"b\"); }\n// says `c`\nlet d = \"one \\\n    two\\\"\"; r#\"e\"f\"#;\n";
    let found: Vec<_> =
        pieces(source).into_iter().map(|piece| (piece.line, piece.literal, piece.text)).collect();
    let expected = [(1, true, "b"), (2, false, " says `c`"), (3, true, "one two\""), (4, true, "e\"f")];
    assert_eq!(found, expected.map(|(line, literal, text)| (line, literal, text.to_owned())));
}
