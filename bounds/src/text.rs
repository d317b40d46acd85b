//! Sanitizes untrusted text for display.

/// Returns the text as one line with at most `max` characters, plus `…` if it was longer. Control characters, invisible
/// characters and characters that change the text direction become spaces.
///
/// Terminals act on control characters (titles, colors, the clipboard), and direction characters can make a line look like a
/// different line.
pub fn printable(text: &str, max: usize) -> String {
    let mut shown: String = text.chars().map(|c| if is_shown(c) { c } else { ' ' }).take(max).collect();
    if text.chars().nth(max).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns true unless the character is a control character, is invisible, or changes how the surrounding text is displayed.
fn is_shown(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_become_spaces() {
        assert_eq!(printable("a\nb\u{1b}[31m\u{9b}\u{7}c", 400), "a b [31m  c");
        assert_eq!(printable("x\u{202e}y\u{200b}z\u{feff}", 400), "x y z ");
        assert_eq!(printable("Ä€ 漢字 👍", 400), "Ä€ 漢字 👍");
    }

    #[test]
    fn long_text_is_cut_and_marked() {
        let shown = printable(&"é".repeat(1000), 400);
        assert_eq!(shown.chars().count(), 401);
        assert!(shown.ends_with('…'));
        assert_eq!(printable("abc", 3), "abc");
    }
}
