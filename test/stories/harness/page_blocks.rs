//! Reads the commands and manifests on a page in `docs`, in order.

use std::path::Path;

/// A block on a page, either indented or fenced.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The heading above the block.
    pub heading: String,
    /// The language after the opening fence. Empty for an indented block.
    pub language: String,
    pub text: String,
}

impl Block {
    /// Returns the first line.
    pub fn begins(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// Returns all blocks on a page.
pub fn read(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    blocks(&std::fs::read_to_string(path).expect("the page"))
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut heading = String::new();
    let mut lines = page.lines().peekable();
    let mut is_after_text = false;
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix('#') {
            words.trim_start_matches('#').trim().clone_into(&mut heading);
        } else if let Some(language) = line.strip_prefix("```") {
            let inner: Vec<_> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            let (heading, language) = (heading.clone(), language.to_owned());
            found.push(Block { heading, language, text: inner.join("\n") });
        } else if is_code(line) && !is_after_text {
            let mut inner = vec![line];
            while let Some(line) = lines.next_if(|line| line.is_empty() || is_code(line)) {
                inner.push(line);
            }
            let margin = inner.iter().filter(|line| !line.is_empty()).map(|line| margin_of(line)).min();
            let inner: Vec<_> =
                inner.iter().map(|line| line.get(margin.unwrap_or_default()..).unwrap_or_default()).collect();
            let text = inner.join("\n").trim_end().to_owned();
            found.push(Block { heading: heading.clone(), language: String::new(), text });
            is_after_text = false;
            continue;
        }
        is_after_text = !line.is_empty() && !line.starts_with("```");
    }
    found
}

/// Returns true for code. List text is indented by fewer than four spaces.
fn is_code(line: &str) -> bool {
    margin_of(line) >= 4 && !line.trim().is_empty()
}

fn margin_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn blocks_are_found_in_lists_and_between_fences() {
    let page = "# Title\n\nText\n    that goes on:\n\n    one\n      two\n\n    three\n\n## Part\n\n1. Item\n   more\n\n       four\n\n```yaml\na: 1\n\nb: 2\n```\n";
    let block = |heading: &str, language: &str, text: &str| Block {
        heading: heading.to_owned(),
        language: language.to_owned(),
        text: text.to_owned(),
    };
    let expected = [
        block("Title", "", "one\n  two\n\nthree"),
        block("Part", "", "four"),
        block("Part", "yaml", "a: 1\n\nb: 2"),
    ];
    assert_eq!(blocks(page), expected);
}
