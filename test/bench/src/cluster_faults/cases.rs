//! Cases: which program is killed at which write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clap::ValueEnum;

use crate::proxy::injections::{ParkPoint, Side};

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum RunStep {
    /// A cluster is created, with one control plane node and one worker.
    Apply,
    /// It gets a second worker.
    Scale,
    /// It is deleted.
    Delete,
    /// A bootstrap cluster is started for the first time.
    Start,
    /// It is started again, and has a cluster.
    Restart,
}

impl RunStep {
    /// The steps that a cluster run goes through, in order.
    pub const OF_CLUSTER: [Self; 3] = [Self::Apply, Self::Scale, Self::Delete];
    /// The steps that start a bootstrap cluster. Each is a separate run.
    pub const OF_BOOTSTRAP: [Self; 2] = [Self::Start, Self::Restart];

    /// Returns the step's name in case names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Scale => "scale",
            Self::Delete => "delete",
            Self::Start => "start",
            Self::Restart => "restart",
        }
    }
}

/// A kind of write that a program makes in a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Write {
    pub program: &'static str,
    pub step: RunStep,
    /// The receiver: the API server or vCenter.
    pub side: Side,
    /// Verb and resource for the API server, or the vCenter method.
    pub what: String,
}

/// A program that is killed at a step's first write of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    pub write: Write,
    /// Before or after the write.
    pub point: ParkPoint,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write { program, step, what, .. } = &self.write;
        let point = match self.point {
            ParkPoint::Before => "before",
            ParkPoint::After => "after",
        };
        write!(f, "{program}|{}|{what}|{point}", step.name())
    }
}

/// Returns two cases per write: before and after it.
pub fn of(writes: &BTreeSet<Write>) -> Vec<Case> {
    let points = [ParkPoint::Before, ParkPoint::After];
    writes.iter().flat_map(|write| points.map(|point| Case { write: write.clone(), point })).collect()
}

/// Distributes the cases over runs with at most one case per step.
pub fn runs(cases: Vec<Case>) -> Vec<Vec<Case>> {
    let mut by_step: BTreeMap<RunStep, Vec<Case>> = BTreeMap::new();
    for case in cases {
        by_step.entry(case.write.step).or_default().push(case);
    }
    let count = by_step.values().map(Vec::len).max().unwrap_or_default();
    (0..count).map(|at| by_step.values().filter_map(|cases| cases.get(at).cloned()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(program: &'static str, step: RunStep) -> Write {
        Write { program, step, side: Side::Api, what: "PATCH virtualmachines".to_owned() }
    }

    #[test]
    fn runs_have_each_case_once_and_one_of_each_step() {
        let writes =
            [write("capw", RunStep::Apply), write("vmop", RunStep::Apply), write("vmop", RunStep::Delete)];
        let all = of(&writes.into());
        assert_eq!(all.len(), 6);
        let runs = runs(all.clone());
        assert_eq!(runs.len(), 4);
        assert!(
            runs.iter().all(|cases| cases.iter().map(|case| case.write.step).collect::<BTreeSet<_>>().len()
                == cases.len())
        );
        let names = |cases: &[Case]| cases.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        assert_eq!(names(&runs.concat()), names(&all));
        assert!(names(&all).contains("capw|apply|PATCH virtualmachines|before"));
    }
}
