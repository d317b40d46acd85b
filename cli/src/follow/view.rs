//! Shows cluster progress on standard error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use bounds::printable;
use jiff::Timestamp;

use super::cluster_report::ClusterReport;
use crate::describe::cluster_view::Count;
use crate::describe::tree::Tree;
use crate::describe::words::cut;
use crate::describe::{Blocking, print};
use crate::terminal::output::say;

/// The time after which a plain line mentions a blocking cause.
pub(crate) const WORTH_MENTIONING: Duration = Duration::from_secs(20);

/// A live tree on a terminal, plain lines elsewhere.
pub enum View {
    /// A tree that is redrawn in place.
    Live {
        /// The width of each line in the last drawing, in columns.
        drawn: Vec<usize>,
    },
    /// A line for each event.
    Plain {
        /// The output so far, by cluster.
        shown: BTreeMap<String, Shown>,
    },
}

/// The output so far for one cluster.
#[derive(Default)]
pub struct Shown {
    /// The number of printed milestones.
    milestones: usize,
    /// The control plane and worker node counts.
    counts: Option<(Count, Count)>,
    /// The blocking cause, the time from the start until it appeared, and true if the cause was printed already.
    blocking: Option<(Blocking, Duration, bool)>,
}

impl View {
    /// Selects the view that standard error supports.
    pub fn new() -> Self {
        let terminal =
            std::io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
        if terminal { Self::Live { drawn: Vec::new() } } else { Self::Plain { shown: BTreeMap::new() } }
    }

    /// Shows the current state. `trees` are the trees of clusters that don't run yet, with their namespaces.
    pub fn show(&mut self, reports: &[ClusterReport], trees: &[(String, Tree)], elapsed: Duration) {
        match self {
            Self::Live { drawn } => {
                let (height, width) = console::Term::stderr().size();
                let (height, width) = (usize::from(height), usize::from(width).saturating_sub(1));
                let lines = lines(reports, trees, elapsed, height, width);
                draw(drawn, &lines, width + 1);
            }
            Self::Plain { shown } => {
                for report in reports {
                    let key = format!("{}/{}", report.namespace, report.name);
                    say(shown.entry(key.clone()).or_default(), &key, report, elapsed);
                }
            }
        }
    }
}

impl Drop for View {
    /// Erases the live tree, to make room for the final output.
    fn drop(&mut self) {
        if let Self::Live { drawn } = self {
            let (_, width) = console::Term::stderr().size();
            draw(drawn, &[], usize::from(width));
        }
    }
}

fn say(shown: &mut Shown, key: &str, report: &ClusterReport, elapsed: Duration) {
    for milestone in &report.milestones[shown.milestones..] {
        say!("{:>6.1}s  {key}: {}", milestone.seconds, milestone.name);
    }
    shown.milestones = report.milestones.len();
    let counts = (report.control_plane, report.workers);
    if shown.counts.replace(counts).is_some_and(|before| before != counts) {
        let (control_plane, workers) = counts;
        say!("{:>6.1}s  {key}: control plane {control_plane}, workers {workers}", elapsed.as_secs_f64());
    }
    let Some(blocking) = &report.blocking else { return };
    // A pause is mentioned at once, because it doesn't end by itself.
    let patience = if blocking.is_pause() { Duration::ZERO } else { WORTH_MENTIONING };
    match &mut shown.blocking {
        Some((known, since, mentioned)) if known == blocking => {
            if !*mentioned && elapsed.saturating_sub(*since) > patience {
                say!("{:>6.1}s  {key}: waiting for {}", elapsed.as_secs_f64(), print::cause(blocking));
                *mentioned = true;
            }
        }
        other => *other = Some((blocking.clone(), elapsed, false)),
    }
}

/// Returns the lines to draw: fewer than `height`, and each at most `width` columns wide.
fn lines(
    reports: &[ClusterReport],
    trees: &[(String, Tree)],
    elapsed: Duration,
    height: usize,
    width: usize,
) -> Vec<String> {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.is_running()) {
        let _ = writeln!(text, "{}/{}: Running after {:.1} s", report.namespace, report.name, report.seconds);
    }
    for (namespace, Tree { root, blocking }) in trees {
        if let Some(blocking) = blocking {
            let _ = writeln!(text, "{namespace}/{} is waiting for {}", root.name, print::cause(blocking));
        }
        text += &print::table(root, Timestamp::now(), Some(width));
    }
    let mut lines: Vec<_> = text.lines().map(|line| cut(line, width)).collect();
    let room = height.saturating_sub(2).max(1);
    if lines.len() > room {
        let more = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(format!("… {more} more lines"));
    }
    lines.push(cut(&format!("{:.0} s", elapsed.as_secs_f64()), width));
    lines
}

/// Draws over the last drawing with a single write, without clearing the lines first, so that the terminal doesn't
/// flicker. `width` is the terminal's width in columns.
fn draw(drawn: &mut Vec<usize>, lines: &[String], width: usize) {
    let stroke = stroke(drawn, lines, width);
    *drawn = lines.iter().map(|line| line.chars().count()).collect();
    // A closed terminal isn't a reason to stop.
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(stroke.as_bytes()).and_then(|()| terminal.flush());
}

fn stroke(drawn: &[usize], lines: &[String], width: usize) -> String {
    let width = width.max(1);
    // If the terminal has become narrower, it has wrapped the lines that were drawn before.
    let rows: usize = drawn.iter().map(|columns| columns.div_ceil(width).max(1)).sum();
    let mut stroke = String::from("\x1b[?2026h");
    if rows > 0 {
        let _ = write!(stroke, "\x1b[{rows}A\r");
    }
    for line in lines {
        let _ = write!(stroke, "{}\x1b[K\r\n", printable(line, usize::MAX));
    }
    stroke + "\x1b[J\x1b[?2026l"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::TreeNode;

    #[test]
    fn a_drawing_covers_the_last_one_and_its_broken_lines() {
        let stroke = stroke(&[3, 25, 0], &["a".to_owned()], 10);
        assert_eq!(stroke, "\x1b[?2026h\x1b[5A\ra\x1b[K\r\n\x1b[J\x1b[?2026l");
    }

    #[test]
    fn a_tree_taller_than_the_terminal_is_cut_above_the_time() {
        let child =
            |name: &str| TreeNode { kind: "Machine".into(), name: name.into(), ..TreeNode::default() };
        let children = ["a", "b", "c", "d", "e"].map(child).to_vec();
        let root = TreeNode { kind: "Cluster".into(), name: "c".into(), children, ..TreeNode::default() };
        let (object, reason, message) = ("Cluster ns/c".into(), String::new(), String::new());
        let tree = Tree { root, blocking: Some(Blocking { object, reason, message }) };
        let drawn = lines(&[], &[("ns".to_owned(), tree)], Duration::from_secs(5), 6, 30);
        assert_eq!(drawn.len(), 5);
        assert_eq!(drawn[3..], ["… 5 more lines".to_owned(), "5 s".to_owned()]);
        assert!(drawn.iter().all(|line| line.chars().count() <= 30), "{drawn:?}");
    }
}
