//! Every write that a clean run makes, with the VM operator killed at it; every event, held back; old views.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Result, bail};

use super::arena::{Arena, image};
use super::report::{Failure, Report, kept};
use super::run::{Case, Kind, Ran, run};
use super::state::State;
use crate::proxy::orders::{Key, Moment, Side};

/// How many steps an old view lies back.
const BACK: [usize; 3] = [1, 2, 4];

/// Which cases are run.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only this one: its number, or its key.
    pub write: Option<String>,
    /// Only so many, spread over all.
    pub sample: Option<usize>,
}

/// Runs all cases.
pub async fn exhaustive(arena: &Arena, choice: &Choice, report: &mut Report) -> Result<()> {
    let (wanted, cases) = learnt(arena).await?;
    let chosen = chosen(&cases, choice)?;
    tracing::info!(cases = cases.len(), chosen = chosen.len(), "the clean runs agree");
    for (count, number) in chosen.iter().enumerate() {
        let case = &cases[*number];
        let began = Instant::now();
        one(arena, *number, case, &wanted, report).await?;
        let seconds = began.elapsed().as_secs_f32();
        tracing::info!(number, of = chosen.len() - count, fault = case.kind.name(), key = %case.key, seconds, "done");
    }
    Ok(())
}

/// What a clean run comes to, and every case that it gives rise to, in an order that is the same each time.
async fn learnt(arena: &Arena) -> Result<(Vec<State>, Vec<Case>)> {
    let mut first: Option<Vec<State>> = None;
    let mut keys = BTreeSet::new();
    for name in ["clean-0", "clean-1", "clean-2"] {
        let Ran { states, writes, events, wrong, .. } = run(arena, name, None, first.as_deref()).await?;
        if let Some((wrong, _)) = wrong {
            bail!("{name} came to another end: {}", wrong.join("; "));
        }
        // The library has many images, of which one is needed.
        let wanted = |key: &Key| !key.what.contains("virtualmachineimages") || key.object == image();
        keys.extend(writes.into_iter().chain(events).filter(wanted));
        first.get_or_insert(states);
    }
    let cases = keys.iter().enumerate().flat_map(|(index, key)| cases(index, key)).collect();
    Ok((first.unwrap_or_default(), cases))
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

async fn one(arena: &Arena, number: usize, case: &Case, wanted: &[State], report: &mut Report) -> Result<()> {
    let log = arena.vmop.log();
    let from = std::fs::metadata(log).map_or(0, |found| found.len());
    // A write that did not come may come another time: not everything has one order.
    let mut ran = Ran::default();
    for attempt in 0..2 {
        ran = run(arena, &format!("run-{number}-{attempt}"), Some(case), Some(wanted)).await?;
        report.trials += 1;
        if ran.met || ran.wrong.is_some() {
            break;
        }
    }
    if ran.met {
        report.struck(case.kind.name(), 1);
    } else {
        tracing::info!(number, key = %case.key, "it did not come");
        report.missed += 1;
    }
    if let Some((causes, state)) = ran.wrong {
        let findings = state.map(|state| state.findings).unwrap_or_default();
        let failure = Failure {
            repeat: format!("--exhaustive --write {number}"),
            fault: format!("{} at {}", case.kind.name(), case.key),
            causes,
            log: kept(log, from, &format!("write-{number}")),
        };
        report.failed(&findings, failure);
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
