//! The steps that users must take for an upgrade, as CHANGELOG.md lists them.

use components::catalogue::LAYERCAKE;

use super::decision::{Decision, Decisions, is_older};

/// The release notes of this version and of all earlier ones.
const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");
/// The heading of the list of required steps.
const REQUIRED: &str = "### You must";

/// A step that users must take.
#[derive(Debug, PartialEq, Eq)]
pub struct RequiredStep {
    /// The release that requires it, such as `v0.2.0`.
    pub release: String,
    pub text: String,
}

/// Returns the required steps of all releases after the installed ones, the newest release first. Returns none for a new
/// installation and for one of an unknown version.
pub fn required_steps(decisions: &Decisions) -> Vec<RequiredStep> {
    let replaced = decisions.iter().filter_map(|(component, decision)| match decision {
        Decision::Replace(Some(old)) if component.image.tag == LAYERCAKE => Some(old.as_str()),
        _ => None,
    });
    let oldest = replaced.reduce(|one, other| if is_older(Some(other), Some(one)) { other } else { one });
    oldest.map_or(Vec::new(), |installed| steps_since(CHANGELOG, installed))
}

/// Returns the required steps of the releases in `changelog` that are newer than `installed`.
fn steps_since(changelog: &str, installed: &str) -> Vec<RequiredStep> {
    let mut steps: Vec<RequiredStep> = Vec::new();
    let mut release = String::new();
    let mut is_required = false;
    for line in changelog.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            release = version_in(heading);
            is_required = false;
        } else if line.starts_with("### ") {
            is_required = line == REQUIRED && is_older(Some(installed), Some(&release));
        } else if let Some(text) = line.strip_prefix("- ").filter(|text| is_required && *text != "Nothing.") {
            steps.push(RequiredStep { release: release.clone(), text: text.to_owned() });
        } else if let (true, Some(more), Some(step)) =
            (is_required, line.strip_prefix("  "), steps.last_mut())
        {
            step.text = format!("{} {}", step.text, more.trim());
        }
    }
    steps
}

/// Returns the version in a heading such as `0.2.0 (2027-01-31)` or `Unreleased (0.2.0)`, or an empty string.
fn version_in(heading: &str) -> String {
    let mut words = heading.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.find(|word| word.matches('.').count() == 2).map_or(String::new(), |version| format!("v{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "# Changelog\n\n## Unreleased (0.3.0)\n\n### Added\n\n- A flag.\n\n### You must\n\n- Rename the key `a`\n  to `b`.\n- Grant the privilege C.\n\n## 0.2.0 (2027-01-31)\n\n### You must\n\n- Nothing.\n\n## 0.1.1 (2027-01-01)\n\n### You must\n\n- Import the images again.\n\n## 0.1.0 (2026-12-01)\n\n### You must\n\n- Read the page.\n";

    #[test]
    fn steps_of_all_later_releases_are_listed() {
        let since = |installed: &str| {
            steps_since(SAMPLE, installed)
                .into_iter()
                .map(|step| format!("{}: {}", step.release, step.text))
                .collect::<Vec<_>>()
        };
        let newest = ["v0.3.0: Rename the key `a` to `b`.", "v0.3.0: Grant the privilege C."];
        assert_eq!(since("v0.2.0"), newest);
        assert_eq!(since("v0.1.0-2"), [newest[0], newest[1], "v0.1.1: Import the images again."]);
        assert_eq!(since("v0.3.0"), Vec::<String>::new());
        assert_eq!(since("unknown"), Vec::<String>::new());
    }

    /// The changelog that is embedded has a list for this version.
    #[test]
    fn the_changelog_names_this_version() {
        let headings: Vec<_> =
            CHANGELOG.lines().filter_map(|line| line.strip_prefix("## ")).map(version_in).collect();
        assert!(headings.contains(&LAYERCAKE.to_owned()), "{headings:?}");
        assert!(CHANGELOG.contains(REQUIRED));
    }
}
