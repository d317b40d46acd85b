//! What goes wrong in a trial, and when: all of it from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng};
use sim::control::{Fault, FaultKind};

/// How long things go wrong.
pub const STORM: Duration = Duration::from_millis(3200);

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// The VM operator is killed and comes back.
    Kill,
    /// A second VM operator acts beside the first, as when a lease changes hands at a bad moment.
    Rival(Duration),
    /// Every session of vCenter is gone.
    Expire,
    /// vCenter refuses connections for a while; with the sessions gone, it has been restarted.
    Cut {
        /// How long.
        down: Duration,
        /// Whether it forgets the sessions.
        restart: bool,
    },
    /// Calls of vCenter fail.
    Plant(Fault),
    /// A user powers the machine of this number on or off.
    Power(usize, bool),
    /// A user has the machine of this number suspended.
    Suspend(usize),
    /// A user has it restarted.
    Restart(usize),
    /// Somebody hangs a disk on it in vCenter.
    Hung(usize),
    /// A user deletes the object of this number.
    Delete(usize),
    /// Somebody destroys the machine of this number in vCenter.
    Destroyed(usize),
    /// Somebody powers it off there.
    PoweredOff(usize),
    /// Somebody renames it there.
    Renamed(usize),
}

impl Happening {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Rival(_) => "twoLeaders",
            Self::Expire => "sessionExpired",
            Self::Cut { restart: false, .. } => "vcenterCut",
            Self::Cut { restart: true, .. } => "vcenterRestarted",
            Self::Plant(fault) => planted(fault),
            Self::Power(..) => "userPower",
            Self::Suspend(_) => "userSuspend",
            Self::Restart(_) => "userRestart",
            Self::Hung(_) => "diskHung",
            Self::Delete(_) => "userDelete",
            Self::Destroyed(_) => "destroyedBehind",
            Self::PoweredOff(_) => "poweredOffBehind",
            Self::Renamed(_) => "renamedBehind",
        }
    }
}

fn planted(fault: &Fault) -> &'static str {
    match (fault.kind, fault.method.as_str()) {
        (FaultKind::Abort, "WaitForUpdatesEx") => "longPollDropped",
        (FaultKind::LostAnswer, "CloneVM_Task") => "cloneAnswerLost",
        (FaultKind::LostAnswer, _) => "answerLost",
        (FaultKind::TaskFault | FaultKind::Fault, _) => "taskFailed",
        (FaultKind::HalfClone, _) => "halfClone",
        (FaultKind::Delay, _) => "taskSlow",
        (FaultKind::Http503, _) => "http503",
        (FaultKind::Html, _) => "html",
        _ => "callCut",
    }
}

/// What happens, and when after the beginning.
pub type Schedule = Vec<(Duration, Happening)>;

const TASKS: [&str; 5] =
    ["CloneVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigVM_Task"];

/// The schedule of a seed, for so many machines.
pub fn schedule(seed: u64, machines: usize) -> Schedule {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    let storm = u64::try_from(STORM.as_millis()).unwrap_or_default();
    let mut at = |dice: &mut StdRng, from: u64, happening| {
        all.push((Duration::from_millis(dice.random_range(from..storm)), happening));
    };
    for _ in 0..dice.random_range(1..4) {
        at(&mut dice, 200, Happening::Kill);
    }
    if dice.random_bool(0.5) {
        let time = Duration::from_millis(dice.random_range(300..900));
        at(&mut dice, 100, Happening::Rival(time));
    }
    for _ in 0..dice.random_range(0..3) {
        at(&mut dice, 100, Happening::Expire);
    }
    for _ in 0..dice.random_range(0..3) {
        let down = Duration::from_millis(dice.random_range(20..400));
        let restart = dice.random_bool(0.5);
        at(&mut dice, 100, Happening::Cut { down, restart });
    }
    for _ in 0..dice.random_range(4..10) {
        let fault = misfortune(&mut dice);
        at(&mut dice, 0, Happening::Plant(fault));
    }
    for _ in 0..machines / 3 {
        let number = dice.random_range(0..machines);
        let on = dice.random_bool(0.5);
        at(&mut dice, 500, Happening::Power(number, on));
    }
    for _ in 0..dice.random_range(1..4) {
        let number = dice.random_range(0..machines);
        at(&mut dice, 800, Happening::Suspend(number));
        let number = dice.random_range(0..machines);
        at(&mut dice, 800, Happening::Restart(number));
        let number = dice.random_range(0..machines);
        at(&mut dice, 800, Happening::Hung(number));
    }
    for number in 0..machines {
        // Each machine meets at most one end, from either side.
        match dice.random_range(0..12) {
            0 | 1 => at(&mut dice, 300, Happening::Delete(number)),
            2 => at(&mut dice, 900, Happening::Destroyed(number)),
            3 => at(&mut dice, 900, Happening::PoweredOff(number)),
            4 => at(&mut dice, 900, Happening::Renamed(number)),
            _ => {}
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

fn misfortune(dice: &mut StdRng) -> Fault {
    let task = TASKS.choose(dice).copied().unwrap_or("CloneVM_Task");
    let times = dice.random_range(1..4);
    let fault = match dice.random_range(0..10) {
        0 => Fault::once("CloneVM_Task", FaultKind::LostAnswer),
        1 => Fault::once("CloneVM_Task", FaultKind::HalfClone).with("TaskInProgress", "by order"),
        2 => Fault::once(task, FaultKind::LostAnswer),
        3 => Fault::once(task, FaultKind::TaskFault).with("InsufficientResourcesFault", "by order"),
        4 => Fault::once(task, FaultKind::Delay).lasting(dice.random_range(100..1200)),
        5 => Fault::once("*", FaultKind::Http503),
        6 => Fault::once("*", FaultKind::Html),
        7 => Fault::once("WaitForUpdatesEx", FaultKind::Abort),
        8 => Fault::once(task, FaultKind::Abort),
        _ => Fault::once("CloneVM_Task", FaultKind::Delay).lasting(dice.random_range(300..1500)),
    };
    fault.times(times).after(dice.random_range(0..6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_schedule() {
        assert_eq!(schedule(7, 24), schedule(7, 24));
        assert_ne!(schedule(7, 24), schedule(8, 24));
        let kinds: std::collections::BTreeSet<_> =
            (0..40).flat_map(|seed| schedule(seed, 24)).map(|(_, happening)| happening.name()).collect();
        assert_eq!(kinds.len(), 22, "{kinds:?}");
    }
}
