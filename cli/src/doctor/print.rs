//! Formats findings.

use std::fmt::Write as _;

use kit::diagnosis::{CheckOutcome, Diagnosis};

fn mark(outcome: CheckOutcome) -> &'static str {
    match outcome {
        CheckOutcome::Ok => "√",
        CheckOutcome::Skipped => "-",
        CheckOutcome::Warning => "‼",
        CheckOutcome::Error => "×",
    }
}

/// Returns the subject for a code's first two digits.
fn subject(code: &str) -> &'static str {
    match &code[..code.len().min(4)] {
        "LC01" => "kubernetes",
        "LC02" => "configuration",
        "LC03" => "vcenter",
        "LC04" => "privileges",
        "LC05" => "placement",
        "LC06" => "content libraries",
        "LC07" => "storage",
        "LC08" => "network",
        "LC09" => "virtual machines",
        _ => "manifests",
    }
}

/// Formats one line per check, grouped by subject, with the remedy for problems.
pub fn table(found: &[Diagnosis]) -> String {
    let mut text = String::new();
    let mut last = "";
    for Diagnosis { check, outcome, found, remedy } in found {
        let of = subject(check.code);
        if of != last {
            let gap = if last.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{of}\n{}", "-".repeat(of.len()));
            last = of;
        }
        let _ = write!(text, "{} {} {}", mark(*outcome), check.code, check.title);
        if *outcome == CheckOutcome::Ok {
            let _ = writeln!(text, " ({found})");
        } else {
            let _ = writeln!(text, "\n    {found}");
        }
        if !remedy.is_empty() {
            let _ = writeln!(text, "    {}.", remedy.trim_end_matches('.'));
            let _ = writeln!(text, "    see layercake doctor --explain {}", check.code);
        }
    }
    let _ = writeln!(text, "\n{}", sum(found));
    text
}

/// Formats only warnings and errors.
pub fn short(found: &[Diagnosis]) -> String {
    let mut text = String::new();
    for Diagnosis { check, outcome, found, remedy } in
        found.iter().filter(|found| found.outcome > CheckOutcome::Skipped)
    {
        let (found, remedy) = (found.trim_end_matches('.'), remedy.trim_end_matches('.'));
        let _ = writeln!(text, "{} {} {found}. {remedy}.", mark(*outcome), check.code);
    }
    let _ = writeln!(text, "{}", sum(found));
    text
}

/// Formats all findings as one JSON document.
pub fn json(found: &[Diagnosis]) -> String {
    let text = serde_json::to_string_pretty(&serde_json::json!({ "checks": found })).unwrap_or_default();
    format!("{text}\n")
}

/// Formats findings as JUnit XML. Errors become failures. Warnings are part of a test case's output.
pub fn junit(found: &[Diagnosis]) -> String {
    let count = |outcome: CheckOutcome| found.iter().filter(|diagnosis| diagnosis.outcome == outcome).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"layercake doctor\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
        found.len(),
        count(CheckOutcome::Error),
        count(CheckOutcome::Skipped)
    );
    for Diagnosis { check, outcome, found, remedy } in found {
        let (code, title, found, remedy) = (check.code, escape(check.title), escape(found), escape(remedy));
        let inner = match outcome {
            CheckOutcome::Ok => format!("<system-out>{found}</system-out>"),
            CheckOutcome::Skipped => format!("<skipped message=\"{found}\"/>"),
            CheckOutcome::Warning => format!("<system-out>warning: {found}. {remedy}</system-out>"),
            CheckOutcome::Error => format!("<failure message=\"{found}\">{remedy}</failure>"),
        };
        let of = subject(code);
        let _ = writeln!(text, "  <testcase classname=\"{of}\" name=\"{code} {title}\">{inner}</testcase>");
    }
    text.push_str("</testsuite>\n");
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn sum(found: &[Diagnosis]) -> String {
    let count = |outcome: CheckOutcome| found.iter().filter(|diagnosis| diagnosis.outcome == outcome).count();
    let of = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}: {}, {}, {} skipped",
        of(found.len(), "check"),
        of(count(CheckOutcome::Error), "error"),
        of(count(CheckOutcome::Warning), "warning"),
        count(CheckOutcome::Skipped)
    )
}
