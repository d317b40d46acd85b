//! Runs one case per write or event in a clean run: kills the VM operator at each write, delays each event, and shows
//! old views.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, bail};

use super::environment::FaultTestbed;
use super::report::{FailedRun, FaultReport, keep_log};
use super::run::{CaseKind, FaultCase, RunOutcome, run_workload};
use super::state::CanonicalState;
use crate::proxy::injections::{CaseKey, ParkPoint, Side};
use crate::vms::node_image;

/// The number of steps by which an old view lags behind.
const BACK: [usize; 3] = [1, 2, 4];

const CLEAN: [&str; 2] = ["clean-0", "clean-1"];

/// Selects the cases to run.
#[derive(Clone, Debug, Default)]
pub struct CaseSelection {
    /// Only the case with this number, or the cases with this key.
    pub write: Option<String>,
    /// The number of cases to run, evenly spread over all.
    pub sample: Option<usize>,
    /// Only the cases in this part.
    pub part: Option<CasePart>,
}

/// One part of all cases. A hash of the case selects its part, so parts are the same in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CasePart {
    /// The part number, from 1.
    number: u64,
    of: u64,
}

impl FromStr for CasePart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(format!("{text:?} is not I/N with I from 1 to N")),
        }
    }
}

impl CasePart {
    /// Returns true if the case belongs to the part.
    pub fn has(self, case: &impl Hash) -> bool {
        hash_of(case) % self.of == self.number - 1
    }
}

/// Returns a hash that is stable across runs.
fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// All cases that the clean runs yield.
struct KnownCases {
    cases: Vec<FaultCase>,
    /// The writes and events that happened in every clean run.
    always: BTreeSet<CaseKey>,
}

/// One environment's clean runs: the end states, and how often each write and event occurred.
struct CleanRuns {
    wanted: Vec<CanonicalState>,
    times: BTreeMap<CaseKey, usize>,
}

/// Runs all selected cases, distributed over the environments.
pub async fn run_exhaustive(
    environments: &[FaultTestbed],
    selection: &CaseSelection,
    report: &RefCell<FaultReport>,
) -> Result<()> {
    let seen = futures::future::try_join_all(environments.iter().map(run_clean)).await?;
    let mut known = derive_cases(&seen);
    let chosen = select_cases(&mut known.cases, selection)?;
    tracing::info!(cases = known.cases.len(), chosen = chosen.len(), "the clean runs agree");
    let queue = RefCell::new(chosen.into_iter());
    let each = environments.iter().zip(&seen).map(|(environment, seen)| async {
        loop {
            let Some(number) = queue.borrow_mut().next() else { return anyhow::Ok(()) };
            let case = &known.cases[number];
            let began = Instant::now();
            run_case(environment, number, &known, &seen.wanted, report).await?;
            let (of, seconds) = (known.cases.len(), began.elapsed().as_secs_f32());
            tracing::info!(number, of, fault = case.kind.name(), key = %case.key, seconds, "done");
        }
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// Runs the workload without faults, [`CLEAN`] times, and checks that all runs reach the same end state.
async fn run_clean(environment: &FaultTestbed) -> Result<CleanRuns> {
    let mut wanted: Option<Vec<CanonicalState>> = None;
    let mut times = BTreeMap::new();
    for name in CLEAN {
        let RunOutcome { states, writes, events, wrong, .. } =
            run_workload(environment, name, None, wanted.as_deref()).await?;
        if let Some((wrong, _)) = wrong {
            bail!("{name} came to another end: {}", wrong.join("; "));
        }
        // The library contains many images, but the workload uses only one.
        let wanted_key =
            |key: &CaseKey| !key.what.contains("virtualmachineimages") || key.object == node_image();
        for key in writes.into_iter().chain(events).filter(wanted_key) {
            *times.entry(key).or_insert(0) += 1;
        }
        wanted.get_or_insert(states);
    }
    Ok(CleanRuns { wanted: wanted.unwrap_or_default(), times })
}

/// Derives all cases from the clean runs, in a stable order.
fn derive_cases(seen: &[CleanRuns]) -> KnownCases {
    let mut times = BTreeMap::new();
    for (key, here) in seen.iter().flat_map(|seen| &seen.times) {
        *times.entry(key.clone()).or_insert(0) += here;
    }
    let cases = times.keys().flat_map(cases_of).collect();
    let runs = CLEAN.len() * seen.len();
    let always = times.into_iter().filter(|(_, times)| *times == runs).map(|(key, _)| key).collect();
    KnownCases { cases, always }
}

fn cases_of(key: &CaseKey) -> Vec<FaultCase> {
    let kinds = match key.side {
        Side::Event => vec![CaseKind::Hold],
        Side::Api | Side::Vcenter => {
            let back = usize::try_from(hash_of(key) % 3).unwrap_or_default();
            vec![
                CaseKind::Kill(ParkPoint::Before),
                CaseKind::Kill(ParkPoint::After),
                CaseKind::Travel(BACK[back]),
            ]
        }
    };
    kinds.into_iter().map(|kind| FaultCase { key: key.clone(), kind }).collect()
}

/// Returns the selected cases by index. If the selected key didn't occur in the clean runs, its cases are added to
/// `all`.
fn select_cases(all: &mut Vec<FaultCase>, selection: &CaseSelection) -> Result<Vec<usize>> {
    if let Some(write) = &selection.write {
        if let Ok(number) = write.parse::<usize>() {
            if number >= all.len() {
                bail!("there is no write {number}: {} cases, from 0", all.len());
            }
            return Ok(vec![number]);
        }
        let key: CaseKey = write.parse().map_err(anyhow::Error::msg)?;
        if all.iter().all(|case| case.key != key) {
            all.extend(cases_of(&key));
        }
        return Ok((0..all.len()).filter(|index| all[*index].key == key).collect());
    }
    let part: Vec<_> =
        (0..all.len()).filter(|index| selection.part.is_none_or(|part| part.has(&all[*index]))).collect();
    let count = selection.sample.unwrap_or(part.len()).clamp(part.len().min(1), part.len());
    Ok((0..count).map(|index| part[index * part.len() / count]).collect())
}

async fn run_case(
    environment: &FaultTestbed,
    number: usize,
    known: &KnownCases,
    wanted: &[CanonicalState],
    report: &RefCell<FaultReport>,
) -> Result<()> {
    let case = &known.cases[number];
    let always = known.always.contains(&case.key);
    let log = environment.vmop.log();
    let from = std::fs::metadata(log).map_or(0, |found| found.len());
    // Not all writes come in a fixed order, so a write that was missed may occur in a second attempt.
    let mut ran = RunOutcome::default();
    for attempt in 0..if always { 2 } else { 1 } {
        ran = run_workload(environment, &format!("run-{number}-{attempt}"), Some(case), Some(wanted)).await?;
        report.borrow_mut().trials += 1;
        if ran.injected || ran.wrong.is_some() {
            break;
        }
    }
    if ran.injected {
        report.borrow_mut().count_injected(case.kind.name(), 1);
    } else {
        tracing::info!(number, key = %case.key, "it did not come");
        report.borrow_mut().missed += 1;
    }
    if let Some((causes, state)) = ran.wrong {
        let findings = state.map(|state| state.findings).unwrap_or_default();
        let failure = FailedRun {
            repeat: format!("--exhaustive --write '{}'", case.key),
            fault: format!("{} at {}", case.kind.name(), case.key),
            causes,
            log: keep_log(log, from, &format!("write-{number}")),
        };
        report.borrow_mut().count_failure(&findings, failure);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(nth: u32) -> CaseKey {
        CaseKey { side: Side::Api, what: "x".into(), object: "a".into(), nth }
    }

    fn all() -> Vec<FaultCase> {
        (1..=4).flat_map(|nth| cases_of(&key(nth))).collect()
    }

    #[test]
    fn a_sample_is_spread_over_all() {
        let pick = |write: Option<&str>, sample| {
            select_cases(&mut all(), &CaseSelection { write: write.map(str::to_owned), sample, part: None })
        };
        assert_eq!(pick(None, Some(3)).unwrap(), [0, 4, 8]);
        assert_eq!(pick(None, None).unwrap().len(), 12);
        assert_eq!(pick(Some("5"), None).unwrap(), [5]);
        assert_eq!(pick(Some("api|x|a|2"), None).unwrap(), [3, 4, 5]);
        assert_eq!(pick(Some("api|x|b|1"), None).unwrap(), [12, 13, 14], "it did not come this time");
        assert!(pick(Some("12"), None).is_err() && pick(Some("x"), None).is_err());
    }

    #[test]
    fn parts_are_all_cases_once() {
        let mut together = Vec::new();
        for number in 1..=3 {
            let part = Some(format!("{number}/3").parse().unwrap());
            together.extend(
                select_cases(&mut all(), &CaseSelection { part, ..CaseSelection::default() }).unwrap(),
            );
        }
        together.sort_unstable();
        assert_eq!(together, (0..12).collect::<Vec<_>>());
        assert!(["0/3", "4/3", "x", "1"].iter().all(|text| text.parse::<CasePart>().is_err()));
    }

    #[test]
    fn what_every_clean_run_has_is_expected() {
        let seen = |times: &[(u32, usize)]| CleanRuns {
            wanted: Vec::new(),
            times: times.iter().map(|(nth, times)| (key(*nth), *times)).collect(),
        };
        let known = derive_cases(&[seen(&[(1, 2), (2, 2)]), seen(&[(1, 2), (2, 1), (3, 1)])]);
        assert_eq!(known.cases.len(), 9);
        assert_eq!(known.always, [key(1)].into());
    }
}
