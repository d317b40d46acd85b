//! What a person sees while clusters come up, on standard error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use bounds::printable;
use jiff::Timestamp;

use super::cluster_report::ClusterReport;
use super::progress::Count;
use crate::describe::words::cut;
use crate::describe::{Blocking, TreeNode, cause, print};
use crate::output::say;

/// How long a cause must have held before a plain line mentions it.
pub(crate) const WORTH_MENTIONING: Duration = Duration::from_secs(20);

/// A live tree on a terminal, plain lines elsewhere.
pub enum View {
    /// Redrawn in place; the lines that were drawn last.
    Live {
        /// Columns of each line.
        drawn: Vec<usize>,
    },
    /// Lines as things happen.
    Plain {
        /// What was printed of each cluster.
        shown: BTreeMap<String, Shown>,
    },
}

/// What was printed of one cluster.
#[derive(Default)]
pub struct Shown {
    milestones: usize,
    counts: Option<(Count, Count)>,
    blocking: Option<(Blocking, Duration, bool)>,
}

impl View {
    /// As fits standard error.
    pub fn new() -> Self {
        let terminal =
            std::io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| term != "dumb");
        if terminal { Self::Live { drawn: Vec::new() } } else { Self::Plain { shown: BTreeMap::new() } }
    }

    /// Shows how things stand; `trees` are those of the clusters that do not run yet, with their namespaces.
    pub fn show(&mut self, reports: &[ClusterReport], trees: &[(String, TreeNode)], elapsed: Duration) {
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
    /// The live tree makes room for what is shown at the end.
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
    // A pause does not end by itself.
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

/// What is drawn, each line no wider than `width`, all of them fewer than `height`.
fn lines(
    reports: &[ClusterReport],
    trees: &[(String, TreeNode)],
    elapsed: Duration,
    height: usize,
    width: usize,
) -> Vec<String> {
    let mut text = String::new();
    for report in reports.iter().filter(|report| report.is_running()) {
        let _ = writeln!(text, "{}/{}: Running after {:.1} s", report.namespace, report.name, report.seconds);
    }
    for (namespace, tree) in trees {
        if let Some(blocking) = cause::blocking(namespace, tree) {
            let _ = writeln!(text, "{namespace}/{} is waiting for {}", tree.name, print::cause(&blocking));
        }
        text += &print::table(tree, Timestamp::now(), Some(width));
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

/// Draws over the last drawing, at one stroke and without blanking it first: nothing flickers.
fn draw(drawn: &mut Vec<usize>, lines: &[String], width: usize) {
    let stroke = stroke(drawn, lines, width);
    *drawn = lines.iter().map(|line| line.chars().count()).collect();
    // A terminal that has gone away is not a reason to stop.
    let mut terminal = std::io::stderr().lock();
    let _ = terminal.write_all(stroke.as_bytes()).and_then(|()| terminal.flush());
}

fn stroke(drawn: &[usize], lines: &[String], width: usize) -> String {
    let width = width.max(1);
    // A terminal that has become narrower has broken the lines drawn before.
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
    use api::conditions::cause::Cause;
    use api::conditions::severity::Severity;

    use super::*;
    use crate::describe::node::Suspicion;

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
        let cause = Cause {
            object: "Cluster c".into(),
            reason: String::new(),
            message: String::new(),
            severity: Severity::Waiting,
        };
        let suspicion = Some(Suspicion { cause, own: false });
        let tree =
            TreeNode { kind: "Cluster".into(), name: "c".into(), suspicion, children, ..TreeNode::default() };
        let drawn = lines(&[], &[("ns".to_owned(), tree)], Duration::from_secs(5), 6, 30);
        assert_eq!(drawn.len(), 5);
        assert_eq!(drawn[3..], ["… 5 more lines".to_owned(), "5 s".to_owned()]);
        assert!(drawn.iter().all(|line| line.chars().count() <= 30), "{drawn:?}");
    }
}
