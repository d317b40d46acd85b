//! Explains why a bootstrap cluster doesn't respond: it is stopped, its disk is full, or its processes keep exiting.

use std::path::Path;

use anyhow::Result;
use plane::space;
use plane::supervise::Ending;

use super::folder::BootstrapFolder;
use super::record::Record;
use crate::terminal::exit::refuse;

const MIB: u64 = 1 << 20;
/// The minimum free space for a new bootstrap cluster, in MiB.
const NEW_MIB: u64 = 1024;
/// The minimum free space for starting an existing bootstrap cluster, in MiB.
const KNOWN_MIB: u64 = 256;
/// The free space in MiB below which etcd fails soon.
const LOW_MIB: u64 = 16;

/// Returns the name of the bootstrap cluster whose folder contains the kubeconfig file at `path`, or `None` if the file
/// isn't in such a folder.
pub fn name_of_kubeconfig(path: &Path) -> Option<String> {
    let name = path.parent()?.file_name()?.to_str()?;
    let folder = BootstrapFolder::of(name).ok()?;
    (path.parent()? == folder.path()).then(|| name.to_owned())
}

/// Returns the reason why a bootstrap cluster doesn't respond, with the remedy, or `None` if the reason can't be
/// determined.
pub fn trouble(name: &str) -> Option<String> {
    let folder = BootstrapFolder::of(name).ok()?;
    if !folder.exists() {
        return Some(format!(
            "Bootstrap cluster {name} does not exist. Those that exist: layercake bootstrap list"
        ));
    }
    match folder.daemon().holder() {
        Ok(None) => {
            Some(format!("Bootstrap cluster {name} is stopped. Start it: layercake bootstrap start {name}"))
        }
        Ok(Some(_)) => of_running(&folder),
        Err(_) => None,
    }
}

/// Returns the reason why a running bootstrap cluster can't work, if there is one.
pub fn of_running(folder: &BootstrapFolder) -> Option<String> {
    let name = folder.name();
    let endings = folder.daemon().read::<Record>().ok().flatten().map(|record| record.endings);
    let endings = endings.unwrap_or_default();
    let free = free_mib(folder.path()).filter(|free| *free < LOW_MIB);
    match (endings.as_slice(), free) {
        ([], None) => None,
        (endings, Some(free)) => {
            let ended: Vec<_> =
                endings.iter().map(|ending| format!(", and {}", words(ending, name))).collect();
            Some(format!(
                "The file system of {} has {free} MiB left{}. Free space, then run layercake bootstrap stop {name} and layercake bootstrap start {name}",
                folder.path().display(),
                ended.concat()
            ))
        }
        (endings, None) => {
            let all: Vec<_> = endings.iter().map(|ending| words(ending, name)).collect();
            Some(format!("{}. The logs are in {}", all.join("; "), folder.path().join("logs").display()))
        }
    }
}

fn words(ending: &Ending, name: &str) -> String {
    format!("{} of {name} has ended {} times: {}", ending.name, ending.times, ending.reason)
}

fn free_mib(path: &Path) -> Option<u64> {
    // A missing folder will be created in the nearest existing ancestor.
    path.ancestors().find_map(|path| space::free_bytes(path).ok()).map(|bytes| bytes / MIB)
}

/// Fails if the file system is too full to start the bootstrap cluster.
///
/// # Errors
/// Returns an error if there is too little free space.
pub fn check_space(folder: &BootstrapFolder) -> Result<()> {
    let needed = if folder.exists() { KNOWN_MIB } else { NEW_MIB };
    refuse_if_full(folder, free_mib(folder.path()), needed)
}

fn refuse_if_full(folder: &BootstrapFolder, free: Option<u64>, needed: u64) -> Result<()> {
    match free.filter(|free| *free < needed) {
        None => Ok(()),
        Some(free) => Err(refuse(&format!(
            "bootstrap cluster {} needs {needed} MiB on the file system of {}, which has {free} MiB left. Free space there",
            folder.name(),
            folder.path().display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::exit::{ExitStatus, status_of_error};

    #[test]
    fn a_full_disk_is_refused_with_what_is_needed() {
        let folder = BootstrapFolder::of("lab").unwrap();
        assert!(refuse_if_full(&folder, Some(NEW_MIB), NEW_MIB).is_ok());
        assert!(refuse_if_full(&folder, None, NEW_MIB).is_ok(), "what cannot be seen is tried");
        let error = refuse_if_full(&folder, Some(7), KNOWN_MIB).unwrap_err();
        assert_eq!(status_of_error(&error), ExitStatus::Refused);
        let expected = ["bootstrap cluster lab needs 256 MiB on the file system of ", "which has 7 MiB left"];
        assert!(expected.iter().all(|part| error.to_string().contains(part)), "{error}");
    }

    #[test]
    fn an_ending_process_is_named_with_its_reason() {
        let reason = "exit status: 1: no space left on device".to_owned();
        let ending = Ending { name: "etcd".to_owned(), times: 14, reason };
        assert_eq!(
            words(&ending, "lab"),
            "etcd of lab has ended 14 times: exit status: 1: no space left on device"
        );
    }
}
