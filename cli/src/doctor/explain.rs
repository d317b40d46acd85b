//! What each check means: its cause, an example, and the commands that help.

use kit::diagnosis::Check;

/// One section for each check, under its code.
const SECTIONS: &str = include_str!("explanations.txt");

/// The section of a check, without its head.
pub fn section(code: &str) -> Option<&'static str> {
    SECTIONS.split("## ").find_map(|section| section.strip_prefix(code)?.strip_prefix('\n')).map(str::trim)
}

/// The explanation of a check, for a terminal.
pub fn explain(check: Check) -> Option<String> {
    let Check { code, title } = check;
    Some(format!("{code}: {title}\n\n{}\n", section(code)?))
}

/// The sections of all checks, as a page.
pub fn page(checks: &[Check]) -> String {
    let sections = checks.iter().filter_map(|check| {
        let Check { code, title } = check;
        Some(format!("## {code}\n\nThe check verifies: {title}.\n\n{}\n", section(code)?))
    });
    sections.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks;

    #[test]
    fn each_check_has_a_cause_an_example_and_a_command() {
        let mut codes: Vec<_> = checks().iter().map(|check| check.code).collect();
        codes.dedup();
        for code in &codes {
            let section = section(code).unwrap_or_else(|| panic!("{code} is not explained"));
            assert!(!section.starts_with("Example") && section.contains("\nExample: `"), "{code}: {section}");
            assert!(section.lines().any(|line| line.starts_with("    ")), "{code} has no command");
        }
        let explained: Vec<_> = SECTIONS.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(explained, codes);
    }
}
