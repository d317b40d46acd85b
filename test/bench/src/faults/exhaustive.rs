//! Every write that a clean run makes, with the VM operator killed at it; every event, held back; old views.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
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
}

/// What the clean runs have shown.
struct Learnt {
    wanted: Vec<State>,
    cases: Vec<Case>,
    /// Writes and events of every clean run.
    always: BTreeSet<Key>,
}

/// Runs all cases, shared out among the arenas.
pub async fn exhaustive(arenas: &[Arena], choice: &Choice, report: &RefCell<Report>) -> Result<()> {
    let taken = RefCell::new(BTreeSet::new());
    // A single case is run where its number was given out.
    let arenas = if choice.write.is_some() { &arenas[..1] } else { arenas };
    let each = arenas.iter().map(|arena| shared(arena, choice, &taken, report));
    futures::future::try_join_all(each).await.map(drop)
}

/// Runs those cases that no other arena has taken.
async fn shared(
    arena: &Arena,
    choice: &Choice,
    taken: &RefCell<BTreeSet<String>>,
    report: &RefCell<Report>,
) -> Result<()> {
    let learnt = learnt(arena).await?;
    let cases = &learnt.cases;
    let chosen = chosen(cases, choice)?;
    tracing::info!(cases = cases.len(), chosen = chosen.len(), "the clean runs agree");
    for number in chosen {
        let case = &cases[number];
        if !taken.borrow_mut().insert(everywhere(case)) {
            continue;
        }
        let began = Instant::now();
        one(arena, number, &learnt, report).await?;
        let seconds = began.elapsed().as_secs_f32();
        tracing::info!(number, of = cases.len(), fault = case.kind.name(), key = %case.key, seconds, "done");
    }
    Ok(())
}

/// The case without what each vCenter names in its own way: ids of library items, and what is made of them.
fn everywhere(case: &Case) -> String {
    let Key { side, what, object, nth } = &case.key;
    let object = match object {
        path if path.starts_with('/') => "item",
        name if name.starts_with(&image()) && *side == Side::Vcenter => "template",
        name => name,
    };
    format!("{:?} {side:?} {what} {object} {nth}", case.kind)
}

/// What a clean run comes to, and every case that it gives rise to, in an order that is the same each time.
async fn learnt(arena: &Arena) -> Result<Learnt> {
    let mut first: Option<Vec<State>> = None;
    let mut keys = BTreeMap::new();
    for name in CLEAN {
        let Ran { states, writes, events, wrong, .. } = run(arena, name, None, first.as_deref()).await?;
        if let Some((wrong, _)) = wrong {
            bail!("{name} came to another end: {}", wrong.join("; "));
        }
        // The library has many images, of which one is needed.
        let wanted = |key: &Key| !key.what.contains("virtualmachineimages") || key.object == image();
        for key in writes.into_iter().chain(events).filter(wanted) {
            *keys.entry(key).or_insert(0) += 1;
        }
        first.get_or_insert(states);
    }
    let cases = keys.keys().enumerate().flat_map(|(index, key)| cases(index, key)).collect();
    let always = keys.into_iter().filter(|(_, times)| *times == CLEAN.len()).map(|(key, _)| key).collect();
    Ok(Learnt { wanted: first.unwrap_or_default(), cases, always })
}

fn cases(index: usize, key: &Key) -> Vec<Case> {
    let kinds = match key.side {
        Side::Event => vec![Kind::Hold],
        Side::Api | Side::Vcenter => {
            let travel = Kind::Travel(BACK[index % BACK.len()]);
            vec![Kind::Kill(Moment::Before), Kind::Kill(Moment::After), travel]
        }
    };
    kinds.into_iter().map(|kind| Case { key: key.clone(), kind }).collect()
}

fn chosen(cases: &[Case], choice: &Choice) -> Result<Vec<usize>> {
    if let Some(write) = &choice.write {
        let named = |case: &Case| case.key.to_string() == *write;
        let chosen: Vec<_> = match write.parse::<usize>() {
            Ok(number) => (0..cases.len()).filter(|index| *index == number).collect(),
            Err(_) => (0..cases.len()).filter(|index| named(&cases[*index])).collect(),
        };
        if chosen.is_empty() {
            bail!("there is no write {write}: {} cases, from 0", cases.len());
        }
        return Ok(chosen);
    }
    let count = choice.sample.unwrap_or(cases.len()).clamp(1, cases.len().max(1));
    Ok((0..count).map(|index| index * cases.len() / count).collect())
}

async fn one(arena: &Arena, number: usize, learnt: &Learnt, report: &RefCell<Report>) -> Result<()> {
    let case = &learnt.cases[number];
    let always = learnt.always.contains(&case.key);
    let log = arena.vmop.log();
    let from = std::fs::metadata(log).map_or(0, |found| found.len());
    // A write that did not come may come another time: not everything has one order.
    let mut ran = Ran::default();
    for attempt in 0..if always { 2 } else { 1 } {
        ran = run(arena, &format!("run-{number}-{attempt}"), Some(case), Some(&learnt.wanted)).await?;
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
            repeat: format!("--exhaustive --write {number}"),
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

    #[test]
    fn a_sample_is_spread_over_all() {
        let key = |nth| Key { side: Side::Api, what: "x".into(), object: "a".into(), nth };
        let cases: Vec<_> = (1..=4).flat_map(|nth| cases(0, &key(nth))).collect();
        let pick =
            |write: Option<&str>, sample| chosen(&cases, &Choice { write: write.map(str::to_owned), sample });
        assert_eq!(pick(None, Some(3)).unwrap(), [0, 4, 8]);
        assert_eq!(pick(None, None).unwrap().len(), 12);
        assert_eq!(pick(Some("5"), None).unwrap(), [5]);
        assert_eq!(pick(Some("api|x|a|2"), None).unwrap(), [3, 4, 5]);
        assert!(pick(Some("99"), None).is_err());
    }
}
