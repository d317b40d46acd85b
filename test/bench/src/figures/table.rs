//! Generates the table in docs/performance.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::{Figures, MeasuredRun};

const BEGIN: &str = "<!-- figures: written by hack/generate -->\n";
const END: &str = "<!-- end of figures -->";

/// One run's table rows.
struct Group {
    run: &'static str,
    title: &'static str,
    rows: &'static [Row],
}

/// A figure and its budget.
struct Row {
    what: &'static str,
    key: &'static str,
    unit: Unit,
    budget: Option<f64>,
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Seconds,
    Milliseconds,
    Mebibytes,
    /// A ratio to another figure.
    Times,
}

const fn row(what: &'static str, key: &'static str, unit: Unit) -> Row {
    Row { what, key, unit, budget: None }
}

const fn bounded(what: &'static str, key: &'static str, unit: Unit, budget: f64) -> Row {
    Row { what, key, unit, budget: Some(budget) }
}

const CHANGES: &str = "vCenter calls per VM that change something";
const CALLS: &str = "vCenter calls per VM, all";
const WRITES: &str = "API writes per VM, without events";
const CPU: &str = "processor time of the VM operator per VM";
const MEMORY: &str = "memory of the VM operator at its peak";
const LAST: &str = "until the last VM has its address";
const RATIO: &str = "the same, compared with a bare client";

const GROUPS: &[Group] = &[
    Group {
        run: "scale-200-vijson",
        title: "200 VMs, VI/JSON",
        rows: &[
            bounded(CHANGES, "mutatingPerVm", Unit::Count, 1.0),
            bounded(CALLS, "requestsPerVm", Unit::Count, 1.2),
            bounded(WRITES, "apiWritesPerVm", Unit::Count, 4.0),
            bounded(CPU, "cpuMsPerVm", Unit::Milliseconds, 8.0),
            bounded(MEMORY, "rssPeakMiB", Unit::Mebibytes, 30.0),
            row("until one VM alone has its address", "oneAloneSeconds", Unit::Seconds),
            row(LAST, "secondsToIp", Unit::Seconds),
            bounded(RATIO, "ratioToFloor", Unit::Times, 1.1),
            bounded("vCenter calls to delete a VM", "deleteRequestsPerVm", Unit::Count, 2.1),
        ],
    },
    Group {
        run: "scale-200-soap",
        title: "200 VMs, SOAP",
        rows: &[
            bounded(CALLS, "requestsPerVm", Unit::Count, 1.2),
            bounded(CPU, "cpuMsPerVm", Unit::Milliseconds, 8.0),
            bounded(MEMORY, "rssPeakMiB", Unit::Mebibytes, 30.0),
            row(LAST, "secondsToIp", Unit::Seconds),
            bounded(RATIO, "ratioToFloor", Unit::Times, 1.1),
        ],
    },
    Group {
        run: "scale-200-vijson-module",
        title: "200 VMs in a cluster module",
        rows: &[
            bounded(CHANGES, "mutatingPerVm", Unit::Count, 2.2),
            row(LAST, "secondsToIp", Unit::Seconds),
            bounded(RATIO, "ratioToFloor", Unit::Times, 1.1),
        ],
    },
    Group {
        run: "scale-200-vijson-late-20s",
        title: "200 VMs whose guests report an address after 20 s",
        rows: &[bounded(WRITES, "apiWritesPerVm", Unit::Count, 4.0), row(LAST, "secondsToIp", Unit::Seconds)],
    },
    Group {
        run: "scale-1000-vijson",
        title: "1,000 VMs, VI/JSON",
        rows: &[
            bounded(CHANGES, "mutatingPerVm", Unit::Count, 1.0),
            bounded(CPU, "cpuMsPerVm", Unit::Milliseconds, 8.0),
            bounded(MEMORY, "rssPeakMiB", Unit::Mebibytes, 40.0),
            row(LAST, "secondsToIp", Unit::Seconds),
            bounded(RATIO, "ratioToFloor", Unit::Times, 1.1),
            bounded("API writes at rest, without leases", "restApiWrites", Unit::Count, 0.0),
            bounded("vCenter calls at rest that change something", "restVcenterMutating", Unit::Count, 0.0),
        ],
    },
    Group {
        run: "memory-10000-vijson",
        title: "start of the VM operator with 10,000 VMs",
        rows: &[
            row("until it knows all of them", "secondsToKnowAll", Unit::Seconds),
            row("processor time", "cpuSeconds", Unit::Seconds),
            row("vCenter calls", "calls", Unit::Count),
            bounded("API writes", "apiWrites", Unit::Count, 0.0),
            bounded(MEMORY, "rssPeakMiB", Unit::Mebibytes, 150.0),
        ],
    },
    Group {
        run: "up",
        title: "a cluster of 3 + 3 simulated nodes",
        rows: &[
            row("until the stack is ready", "stackSeconds", Unit::Seconds),
            row("from the manifest until the first VM has an IP", "first VM has an IP", Unit::Seconds),
            row("… until the API server is up", "API server up", Unit::Seconds),
            row("… until the cluster is running", "seconds", Unit::Seconds),
            row("memory of gcm", "gcmMiB", Unit::Mebibytes),
            row("memory of capw", "capwMiB", Unit::Mebibytes),
            row("memory of vmop", "vmopMiB", Unit::Mebibytes),
            row("memory of the rest: control plane, simulator and six guests", "stackMiB", Unit::Mebibytes),
        ],
    },
    Group {
        run: "floor",
        title: "clusters, compared with Cluster API's in-memory provider",
        rows: &[
            bounded("1 + 1 nodes", "ratio1", Unit::Times, 0.95),
            bounded("3 + 3 nodes", "ratio3", Unit::Times, 0.95),
        ],
    },
    Group {
        run: "first-run",
        title: "`cargo run -- up --once -f examples/test-cluster.yaml` with nothing built or downloaded",
        rows: &[row("from the command until everything is removed", "seconds", Unit::Seconds)],
    },
];

/// Returns the page with the table between its marks replaced.
pub fn with_table(page: &str, figures: &Figures) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no mark of its figures")?;
    let (_, after) = rest.split_once(END).context("the page has no mark of the end of its figures")?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table(&figures.0)?))
}

fn table(figures: &BTreeMap<String, MeasuredRun>) -> Result<String> {
    for run in figures.keys() {
        let is_shown = GROUPS.iter().any(|group| group.run == run);
        ensure!(
            is_shown,
            "the table has no rows for the run {run}: add them to test/bench/src/figures/table.rs, or remove the run"
        );
    }
    let mut text = String::from("| figure | result | budget | |\n|---|---|---|---|\n");
    for group in GROUPS {
        let Some(run) = figures.get(group.run) else { continue };
        let date = run.date.as_ref().map(|date| format!(", {date}")).unwrap_or_default();
        writeln!(text, "| **{}** ({}{date}) | | | |", group.title, run.commit)?;
        for row in group.rows {
            let Some(value) = run.values.get(row.key) else { continue };
            let budget = row.budget.map(|budget| row.unit.format(budget)).unwrap_or_default();
            let verdict = if row.is_missed(*value) { "missed" } else { "" };
            writeln!(text, "| {} | {} | {budget} | {verdict} |", row.what, row.unit.format(*value))?;
        }
    }
    Ok(text)
}

impl Row {
    /// Returns true if the value exceeds its budget after both are rounded for the table.
    fn is_missed(&self, value: f64) -> bool {
        let shown = |value| self.unit.format(value);
        self.budget.is_some_and(|budget| value > budget && shown(value) != shown(budget))
    }
}

impl Unit {
    fn format(self, value: f64) -> String {
        match self {
            Self::Count => decimal(value, 2),
            Self::Seconds if value >= 120.0 => {
                let minutes = (value / 60.0).floor();
                format!("{minutes:.0} min {:.0} s", value - minutes * 60.0)
            }
            Self::Seconds => format!("{} s", decimal(value, if value < 1.0 { 2 } else { 1 })),
            Self::Milliseconds => format!("{} ms", decimal(value, 1)),
            Self::Mebibytes => format!("{} MiB", decimal(value, 1)),
            Self::Times => format!("{} ×", decimal(value, 2)),
        }
    }
}

/// Formats a number with at most `digits` decimal places.
fn decimal(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(run: &str, values: &[(&str, f64)]) -> Figures {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let date = Some("2026-11-24".to_owned());
        Figures(BTreeMap::from([(
            run.to_owned(),
            MeasuredRun { commit: "abcdef1".to_owned(), date, values },
        )]))
    }

    fn page(between: &str) -> String {
        format!("# Page\n\n{BEGIN}{between}{END}\nmore\n")
    }

    #[test]
    fn the_table_shows_what_was_measured_and_what_misses_its_budget() {
        let measured =
            [("mutatingPerVm", 1.004), ("cpuMsPerVm", 8.04), ("rssPeakMiB", 30.1), ("secondsToIp", 943.0)];
        let written = with_table(&page("old\n"), &figures("scale-200-vijson", &measured)).unwrap();
        let expected = "\n| figure | result | budget | |\n|---|---|---|---|\n\
            | **200 VMs, VI/JSON** (abcdef1, 2026-11-24) | | | |\n\
            | vCenter calls per VM that change something | 1 | 1 |  |\n\
            | processor time of the VM operator per VM | 8 ms | 8 ms |  |\n\
            | memory of the VM operator at its peak | 30.1 MiB | 30 MiB | missed |\n\
            | until the last VM has its address | 15 min 43 s |  |  |\n\n";
        assert_eq!(written, page(expected));
    }

    #[test]
    fn writing_the_table_again_changes_nothing() {
        let figures = figures("floor", &[("ratio1", 0.92)]);
        let once = with_table(&page(""), &figures).unwrap();
        assert_eq!(with_table(&once, &figures).unwrap(), once);
    }

    #[test]
    fn a_run_without_rows_and_a_page_without_marks_are_refused() {
        let error = with_table(&page(""), &figures("scale-7-soap", &[])).unwrap_err();
        assert!(error.to_string().contains("scale-7-soap"), "{error}");
        with_table("# Page\n", &figures("floor", &[])).unwrap_err();
    }
}
