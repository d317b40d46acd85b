//! Draws a trial's events and their times from one seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng};
use sim::control::{FaultKind, FaultRule};

/// The duration of the first storm, in which VMs are created.
pub const STORM: Duration = Duration::from_millis(3200);

/// The duration of the second storm, in which site events happen.
pub const SITE_STORM: Duration = Duration::from_millis(2500);

#[derive(Clone, Debug, PartialEq)]
pub enum FaultEvent {
    /// The VM operator is killed and restarted.
    Kill,
    /// A second VM operator acts beside the first, as if a lease changed hands at a bad moment.
    TwoLeaders(Duration),
    /// All vCenter sessions expire.
    Expire,
    /// vCenter refuses connections for a while.
    Cut {
        down: Duration,
        /// True if vCenter also forgets its sessions, as after a restart.
        restart: bool,
    },
    InjectFault(FaultRule),
    /// A user powers the VM on (true) or off.
    Power(usize, bool),
    /// A user suspends the VM.
    Suspend(usize),
    /// A user restarts the VM.
    Restart(usize),
    /// A foreign disk is attached to the VM in vCenter.
    AttachDisk(usize),
    /// A user deletes the VM's object.
    Delete(usize),
    /// The VM is destroyed in vCenter.
    Destroyed(usize),
    /// The VM is powered off in vCenter.
    PoweredOff(usize),
    Renamed(usize),
    /// The VM's last disk is destroyed in vCenter and replaced by a foreign disk.
    SwappedDisk(usize),
    /// The VM is moved into a folder that the VM operator doesn't watch.
    Moved(usize),
    /// vCenter can't read the VM's configuration any more and reports this connection state.
    Unset(usize, &'static str),
    /// The VM's host is disconnected.
    HostAway(usize),
    /// The shared datastore becomes inaccessible.
    DatastoreAway,
    /// All hosts, datastores and VM configurations are accessible again.
    OutagesOver,
    /// The folder for the namespace or the policy is moved to a place that the VM operator doesn't watch.
    FolderMoved(&'static str),
    FolderRenamed(&'static str),
    /// The vCenter clock is set off by this number of seconds.
    ClockSet(i64),
    /// A vCenter backup is taken.
    BackupTaken,
    /// vCenter is restored from the last backup. Its hosts reconnect after the storm.
    Restored,
}

impl FaultEvent {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::TwoLeaders(_) => "twoLeaders",
            Self::Expire => "sessionExpired",
            Self::Cut { restart: false, .. } => "vcenterCut",
            Self::Cut { restart: true, .. } => "vcenterRestarted",
            Self::InjectFault(fault) => fault_name(fault),
            Self::Power(..) => "userPower",
            Self::Suspend(_) => "userSuspend",
            Self::Restart(_) => "userRestart",
            Self::AttachDisk(_) => "diskHung",
            Self::Delete(_) => "userDelete",
            Self::Destroyed(_) => "destroyedBehind",
            Self::PoweredOff(_) => "poweredOffBehind",
            Self::Renamed(_) => "renamedBehind",
            Self::SwappedDisk(_) => "diskSwapped",
            Self::Moved(_) => "movedBehind",
            Self::Unset(..) => "configUnset",
            Self::HostAway(_) => "hostAway",
            Self::DatastoreAway => "datastoreAway",
            Self::OutagesOver => "outagesOver",
            Self::FolderMoved(_) => "folderMoved",
            Self::FolderRenamed(_) => "folderRenamed",
            Self::ClockSet(_) => "clockSet",
            Self::BackupTaken => "backupTaken",
            Self::Restored => "vcenterRestored",
        }
    }
}

fn fault_name(fault: &FaultRule) -> &'static str {
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

/// Events with their times since the storm began.
pub type Schedule = Vec<(Duration, FaultEvent)>;

const TASKS: [&str; 5] =
    ["CloneVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task", "ReconfigVM_Task"];

/// Draws the first storm for `vms` VMs.
pub fn draw_schedule(seed: u64, vms: usize) -> Schedule {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    let storm = u64::try_from(STORM.as_millis()).unwrap_or_default();
    let mut at = |dice: &mut StdRng, from: u64, event| {
        all.push((Duration::from_millis(dice.random_range(from..storm)), event));
    };
    for _ in 0..dice.random_range(1..4) {
        at(&mut dice, 200, FaultEvent::Kill);
    }
    if dice.random_bool(0.5) {
        let time = Duration::from_millis(dice.random_range(300..900));
        at(&mut dice, 100, FaultEvent::TwoLeaders(time));
    }
    for _ in 0..dice.random_range(0..3) {
        at(&mut dice, 100, FaultEvent::Expire);
    }
    for _ in 0..dice.random_range(0..3) {
        let down = Duration::from_millis(dice.random_range(20..400));
        let restart = dice.random_bool(0.5);
        at(&mut dice, 100, FaultEvent::Cut { down, restart });
    }
    for _ in 0..dice.random_range(4..10) {
        let fault = draw_fault(&mut dice);
        at(&mut dice, 0, FaultEvent::InjectFault(fault));
    }
    for _ in 0..vms / 3 {
        let number = dice.random_range(0..vms);
        let on = dice.random_bool(0.5);
        at(&mut dice, 500, FaultEvent::Power(number, on));
    }
    for _ in 0..dice.random_range(1..4) {
        let number = dice.random_range(0..vms);
        at(&mut dice, 800, FaultEvent::Suspend(number));
        let number = dice.random_range(0..vms);
        at(&mut dice, 800, FaultEvent::Restart(number));
        let number = dice.random_range(0..vms);
        at(&mut dice, 800, FaultEvent::AttachDisk(number));
    }
    for number in 0..vms {
        // A VM meets at most one such event.
        match dice.random_range(0..12) {
            0 | 1 => at(&mut dice, 300, FaultEvent::Delete(number)),
            2 => at(&mut dice, 900, FaultEvent::Destroyed(number)),
            3 => at(&mut dice, 900, FaultEvent::PoweredOff(number)),
            4 => at(&mut dice, 900, FaultEvent::Renamed(number)),
            _ => {}
        }
    }
    if dice.random_bool(0.5) {
        // The backup may be older than the policy's folder, pool and module.
        at(&mut dice, 100, FaultEvent::BackupTaken);
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Draws the second storm, which begins when most VMs exist.
pub fn draw_site_schedule(seed: u64, vms: usize) -> Schedule {
    const WHOSE: [&str; 2] = ["namespace", "policy"];
    let mut dice = StdRng::seed_from_u64(seed.rotate_left(32));
    let mut all = Vec::new();
    let storm = u64::try_from(SITE_STORM.as_millis()).unwrap_or_default();
    draw_outages(&mut dice, vms, storm, &mut all);
    let mut at = |dice: &mut StdRng, from: u64, event| {
        all.push((Duration::from_millis(dice.random_range(from..storm)), event));
    };
    for _ in 0..dice.random_range(0..3) {
        at(&mut dice, 100, FaultEvent::Kill);
    }
    for number in (1..vms).step_by(5).filter(|_| dice.random_bool(0.4)).collect::<Vec<_>>() {
        // These VMs have a volume besides their first disk.
        at(&mut dice, 0, FaultEvent::SwappedDisk(number));
    }
    for _ in 0..dice.random_range(1..4) {
        let number = dice.random_range(0..vms);
        at(&mut dice, 0, FaultEvent::Moved(number));
        let number = dice.random_range(0..vms);
        at(&mut dice, 300, FaultEvent::Delete(number));
    }
    if dice.random_bool(0.5) {
        let hours = [-1, 1].choose(&mut dice).copied().unwrap_or(1);
        at(&mut dice, 0, FaultEvent::ClockSet(hours * 3600));
    }
    if dice.random_bool(0.5) {
        if dice.random_bool(0.7) {
            // Otherwise the backup from the first storm is restored, if there is one.
            all.push((Duration::ZERO, FaultEvent::BackupTaken));
        }
        all.push((Duration::from_millis(dice.random_range(900..storm)), FaultEvent::Restored));
    } else {
        let whose = WHOSE.choose(&mut dice).copied().unwrap_or("policy");
        let moved = dice.random_bool(0.6);
        let event = if moved { FaultEvent::FolderMoved(whose) } else { FaultEvent::FolderRenamed(whose) };
        all.push((Duration::from_millis(dice.random_range(0..storm / 2)), event));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Adds outages that affect VMs, hosts and the datastore. They end with `OutagesOver` or with the storm.
fn draw_outages(dice: &mut StdRng, vms: usize, storm: u64, all: &mut Schedule) {
    const STATES: [&str; 4] = ["inaccessible", "invalid", "orphaned", "disconnected"];
    for _ in 0..dice.random_range(0..4) {
        let (number, state) = (dice.random_range(0..vms), STATES.choose(dice).copied().unwrap_or("invalid"));
        all.push((Duration::from_millis(dice.random_range(0..storm)), FaultEvent::Unset(number, state)));
    }
    let outage = match dice.random_range(0..3) {
        0 => FaultEvent::HostAway(dice.random_range(0..vms)),
        1 => FaultEvent::DatastoreAway,
        _ => return,
    };
    let began = dice.random_range(0..storm);
    all.push((Duration::from_millis(began), outage));
    all.push((Duration::from_millis(dice.random_range(began..storm)), FaultEvent::OutagesOver));
}

fn draw_fault(dice: &mut StdRng) -> FaultRule {
    let task = TASKS.choose(dice).copied().unwrap_or("CloneVM_Task");
    let times = dice.random_range(1..4);
    let fault = match dice.random_range(0..10) {
        0 => FaultRule::once("CloneVM_Task", FaultKind::LostAnswer),
        1 => FaultRule::once("CloneVM_Task", FaultKind::HalfClone).with("TaskInProgress", "by order"),
        2 => FaultRule::once(task, FaultKind::LostAnswer),
        3 => FaultRule::once(task, FaultKind::TaskFault).with("InsufficientResourcesFault", "by order"),
        4 => FaultRule::once(task, FaultKind::Delay).lasting(dice.random_range(100..1200)),
        5 => FaultRule::once("*", FaultKind::Http503),
        6 => FaultRule::once("*", FaultKind::Html),
        7 => FaultRule::once("WaitForUpdatesEx", FaultKind::Abort),
        8 => FaultRule::once(task, FaultKind::Abort),
        _ => FaultRule::once("CloneVM_Task", FaultKind::Delay).lasting(dice.random_range(300..1500)),
    };
    fault.times(times).after(dice.random_range(0..6))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT_RUN: std::ops::Range<u64> = 11..14;

    #[test]
    fn a_seed_has_one_schedule() {
        assert_eq!(draw_schedule(7, 24), draw_schedule(7, 24));
        assert_ne!(draw_schedule(7, 24), draw_schedule(8, 24));
        assert_eq!(draw_site_schedule(7, 24), draw_site_schedule(7, 24));
        let both = |seed| draw_schedule(seed, 24).into_iter().chain(draw_site_schedule(seed, 24));
        let kinds: std::collections::BTreeSet<_> =
            (0..40).flat_map(both).map(|(_, event)| event.name()).collect();
        assert_eq!(kinds.len(), 33, "{kinds:?}");
    }

    /// The storms of tests/short_runs/faults.rs contain these events.
    #[test]
    fn the_short_run_has_all_that_happens_to_a_site() {
        let kinds: std::collections::BTreeSet<_> =
            SHORT_RUN.flat_map(|seed| draw_site_schedule(seed, 24)).map(|(_, event)| event.name()).collect();
        for kind in [
            "configUnset",
            "hostAway",
            "datastoreAway",
            "diskSwapped",
            "movedBehind",
            "folderMoved",
            "clockSet",
            "backupTaken",
            "vcenterRestored",
        ] {
            assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
        }
    }
}
