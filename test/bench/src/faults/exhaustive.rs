//! Every write that a clean run makes, with the VM operator killed at it; every event, held back; old views.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, bail};

use super::arena::{Arena, image};
use super::report::{Failure, Report, kept};
use super::run::{Case, Kind, Ran, run};
use super::state::State;
use crate::proxy::orders::{Key, Moment, Side};

/// How many steps an old view lies back.
const BACK: [usize; 3] = [1, 2, 4];

/// The clean runs.
const CLEAN: [&str; 2] = ["clean-0", "clean-1"];

/// Which cases are run.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only this one: its number, or its key.
    pub write: Option<String>,
    /// Only so many, spread over all.
    pub sample: Option<usize>,
    /// Only those of this part.
    pub part: Option<Part>,
}

/// A part of all cases: the same ones each time, since a case belongs to a part by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 1.
    number: u64,
    of: u64,
}

impl FromStr for Part {
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

impl Part {
    fn has(self, case: &Case) -> bool {
        hash(case) % self.of == self.number - 1
    }
}

/// The same number for the same value, each time.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What the clean runs of all arenas have shown.
struct Learnt {
    cases: Vec<Case>,
    /// Writes and events of every clean run.
    always: BTreeSet<Key>,
}

/// What the clean runs of one arena have come to, and how often they had each write and event.
struct Seen {
    wanted: Vec<State>,
    times: BTreeMap<Key, usize>,
}

/// Runs all cases, shared out among the arenas.
pub async fn exhaustive(arenas: &[Arena], choice: &Choice, report: &RefCell<Report>) -> Result<()> {
    let seen = futures::future::try_join_all(arenas.iter().map(seen)).await?;
    let mut learnt = learnt(&seen);
    let chosen = chosen(&mut learnt.cases, choice)?;
    tracing::info!(cases = learnt.cases.len(), chosen = chosen.len(), "the clean runs agree");
    let queue = RefCell::new(chosen.into_iter());
    let each = arenas.iter().zip(&seen).map(|(arena, seen)| async {
        loop {
            let Some(number) = queue.borrow_mut().next() else { return anyhow::Ok(()) };
            let case = &learnt.cases[number];
            let began = Instant::now();
            one(arena, number, &learnt, &seen.wanted, report).await?;
            let (of, seconds) = (learnt.cases.len(), began.elapsed().as_secs_f32());
            tracing::info!(number, of, fault = case.kind.name(), key = %case.key, seconds, "done");
        }
    });
    futures::future::try_join_all(each).await.map(drop)
}

/// The clean runs of one arena.
async fn seen(arena: &Arena) -> Result<Seen> {
    let mut wanted: Option<Vec<State>> = None;
    let mut times = BTreeMap::new();
    for name in CLEAN {
        let Ran { states, writes, events, wrong, .. } = run(arena, name, None, wanted.as_deref()).await?;
        if let Some((wrong, _)) = wrong {
            bail!("{name} came to another end: {}", wrong.join("; "));
        }
        // The library has many images, of which one is needed.
        let wanted_key = |key: &Key| !key.what.contains("virtualmachineimages") || key.object == image();
        for key in writes.into_iter().chain(events).filter(wanted_key) {
            *times.entry(key).or_insert(0) += 1;
        }
        wanted.get_or_insert(states);
    }
    Ok(Seen { wanted: wanted.unwrap_or_default(), times })
}

/// Every case that the clean runs give rise to, in an order that is the same each time.
fn learnt(seen: &[Seen]) -> Learnt {
    let mut times = BTreeMap::new();
    for (key, here) in seen.iter().flat_map(|seen| &seen.times) {
        *times.entry(key.clone()).or_insert(0) += here;
    }
    let cases = times.keys().flat_map(cases).collect();
    let runs = CLEAN.len() * seen.len();
    let always = times.into_iter().filter(|(_, times)| *times == runs).map(|(key, _)| key).collect();
    Learnt { cases, always }
}

fn cases(key: &Key) -> Vec<Case> {
    let kinds = match key.side {
        Side::Event => vec![Kind::Hold],
        Side::Api | Side::Vcenter => {
            let back = usize::try_from(hash(key) % 3).unwrap_or_default();
            vec![Kind::Kill(Moment::Before), Kind::Kill(Moment::After), Kind::Travel(BACK[back])]
        }
    };
    kinds.into_iter().map(|kind| Case { key: key.clone(), kind }).collect()
}

/// The numbers of the cases to be run. A key that the clean runs did not have this time has its cases nevertheless.
fn chosen(all: &mut Vec<Case>, choice: &Choice) -> Result<Vec<usize>> {
    if let Some(write) = &choice.write {
        if let Ok(number) = write.parse::<usize>() {
            if number >= all.len() {
                bail!("there is no write {number}: {} cases, from 0", all.len());
            }
            return Ok(vec![number]);
        }
        let key: Key = write.parse().map_err(anyhow::Error::msg)?;
        if all.iter().all(|case| case.key != key) {
            all.extend(cases(&key));
        }
        return Ok((0..all.len()).filter(|index| all[*index].key == key).collect());
    }
    let part: Vec<_> =
        (0..all.len()).filter(|index| choice.part.is_none_or(|part| part.has(&all[*index]))).collect();
    let count = choice.sample.unwrap_or(part.len()).clamp(part.len().min(1), part.len());
    Ok((0..count).map(|index| part[index * part.len() / count]).collect())
}

async fn one(
    arena: &Arena,
    number: usize,
    learnt: &Learnt,
    wanted: &[State],
    report: &RefCell<Report>,
) -> Result<()> {
    let case = &learnt.cases[number];
    let always = learnt.always.contains(&case.key);
    let log = arena.vmop.log();
    let from = std::fs::metadata(log).map_or(0, |found| found.len());
    // A write that did not come may come another time: not everything has one order.
    let mut ran = Ran::default();
    for attempt in 0..if always { 2 } else { 1 } {
        ran = run(arena, &format!("run-{number}-{attempt}"), Some(case), Some(wanted)).await?;
        report.borrow_mut().trials += 1;
        if ran.met || ran.wrong.is_some() {
            break;
        }
    }
    if ran.met {
        report.borrow_mut().struck(case.kind.name(), 1);
    } else {
        tracing::info!(number, key = %case.key, "it did not come");
        report.borrow_mut().missed += 1;
    }
    if let Some((causes, state)) = ran.wrong {
        let findings = state.map(|state| state.findings).unwrap_or_default();
        let failure = Failure {
            repeat: format!("--exhaustive --write '{}'", case.key),
            fault: format!("{} at {}", case.kind.name(), case.key),
            causes,
            log: kept(log, from, &format!("write-{number}")),
        };
        report.borrow_mut().failed(&findings, failure);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(nth: u32) -> Key {
        Key { side: Side::Api, what: "x".into(), object: "a".into(), nth }
    }

    fn all() -> Vec<Case> {
        (1..=4).flat_map(|nth| cases(&key(nth))).collect()
    }

    #[test]
    fn a_sample_is_spread_over_all() {
        let pick = |write: Option<&str>, sample| {
            chosen(&mut all(), &Choice { write: write.map(str::to_owned), sample, part: None })
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
            together.extend(chosen(&mut all(), &Choice { part, ..Choice::default() }).unwrap());
        }
        together.sort_unstable();
        assert_eq!(together, (0..12).collect::<Vec<_>>());
        assert!(["0/3", "4/3", "x", "1"].iter().all(|text| text.parse::<Part>().is_err()));
    }

    #[test]
    fn what_every_clean_run_has_is_expected() {
        let seen = |times: &[(u32, usize)]| Seen {
            wanted: Vec::new(),
            times: times.iter().map(|(nth, times)| (key(*nth), *times)).collect(),
        };
        let learnt = learnt(&[seen(&[(1, 2), (2, 2)]), seen(&[(1, 2), (2, 1), (3, 1)])]);
        assert_eq!(learnt.cases.len(), 9);
        assert_eq!(learnt.always, [key(1)].into());
    }
}
