//! Explains a check: its cause, an example, and commands that help.

use kit::diagnosis::Check;

/// The page with a section for each check: code, title and explanation.
const PAGE: &str = include_str!("../../../docs/checks.md");

/// Returns a check's title and explanation from the page, or `None` if the page doesn't contain the check.
fn section(code: &str) -> Option<(&'static str, &'static str)> {
    let text = PAGE.split("\n## ").find_map(|section| section.strip_prefix(code)?.strip_prefix("\n\n"))?;
    let (title, explanation) = text.strip_prefix("The check verifies: ")?.split_once(".\n\n")?;
    Some((title, explanation.trim()))
}

/// Formats a check's explanation for the terminal. Returns `None` if the documentation has no section
/// about the check.
pub fn explain(check: Check) -> Option<String> {
    let Check { code, title } = check;
    let (_, explanation) = section(code)?;
    Some(format!("{code}: {title}\n\n{explanation}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks;

    #[test]
    fn each_check_has_a_title_a_cause_an_example_and_a_command() {
        let checks = checks();
        for Check { code, title } in &checks {
            let (on_page, explanation) = section(code).unwrap_or_else(|| panic!("{code} is not explained"));
            assert_eq!(on_page, *title, "{code}");
            assert!(
                !explanation.starts_with("Example") && explanation.contains("\nExample: `"),
                "{code}: {explanation}"
            );
            assert!(explanation.lines().any(|line| line.starts_with("    ")), "{code} has no command");
        }
        let explained: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(explained, checks.iter().map(|check| check.code).collect::<Vec<_>>());
    }
}
