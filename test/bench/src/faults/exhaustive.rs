//! Every write that a clean run makes, with the VM operator killed at it; every event, held back; old views.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, bail};

use super::environment::Environment;
use super::report::{FailedRun, FaultReport, keep_log};
use super::run::{CaseKind, FaultCase, RunOutcome, run_workload};
use super::state::CanonicalState;
use crate::proxy::injections::{CaseKey, ParkPoint, Side};
use crate::vms::node_image;

/// How many steps an old view lies back.
const BACK: [usize; 3] = [1, 2, 4];

const CLEAN: [&str; 2] = ["clean-0", "clean-1"];

/// Which cases are run.
#[derive(Clone, Debug, Default)]
pub struct CaseSelection {
    /// Only this one: its number, or its key.
    pub write: Option<String>,
    /// Only so many, spread over all.
    pub sample: Option<usize>,
    /// Only those of this part.
    pub part: Option<CasePart>,
}

/// A part of all cases: the same ones each time, since a case belongs to a part by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CasePart {
    /// From 1.
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

/// The same number for the same value, each time.
fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What the clean runs of all environments have shown.
struct KnownCases {
    cases: Vec<FaultCase>,
    /// ApiWrites and events of every clean run.
    always: BTreeSet<CaseKey>,
}

/// What the clean runs of one environment have come to, and how often they had each write and event.
struct CleanRuns {
    wanted: Vec<CanonicalState>,
    times: BTreeMap<CaseKey, usize>,
}

/// Runs all cases, shared out among the environments.
pub async fn run_exhaustive(
    environments: &[Environment],
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

/// The clean runs of one environment.
async fn run_clean(environment: &Environment) -> Result<CleanRuns> {
    let mut wanted: Option<Vec<CanonicalState>> = None;
    let mut times = BTreeMap::new();
    for name in CLEAN {
        let RunOutcome { states, writes, events, wrong, .. } =
            run_workload(environment, name, None, wanted.as_deref()).await?;
        if let Some((wrong, _)) = wrong {
            bail!("{name} came to another end: {}", wrong.join("; "));
        }
        // The library has many images, of which one is needed.
        let wanted_key =
            |key: &CaseKey| !key.what.contains("virtualmachineimages") || key.object == node_image();
        for key in writes.into_iter().chain(events).filter(wanted_key) {
            *times.entry(key).or_insert(0) += 1;
        }
        wanted.get_or_insert(states);
    }
    Ok(CleanRuns { wanted: wanted.unwrap_or_default(), times })
}

/// Every case that the clean runs give rise to, in an order that is the same each time.
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

/// The numbers of the cases to be run. A key that the clean runs did not have this time has its cases nevertheless.
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
    environment: &Environment,
    number: usize,
    known: &KnownCases,
    wanted: &[CanonicalState],
    report: &RefCell<FaultReport>,
) -> Result<()> {
    let case = &known.cases[number];
    let always = known.always.contains(&case.key);
    let log = environment.vmop.log();
    let from = std::fs::metadata(log).map_or(0, |found| found.len());
    // A write that did not come may come another time: not everything has one order.
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
