//! Counts the inotify instances that this user can still create. A Cluster API manager exits if it can't create one.

use rustix::fs::inotify::{self, CreateFlags};

use crate::error::{Error, Result};

/// The number of instances in a management cluster: three for the API server, one for kube-controller-manager, and one
/// for each Cluster API manager.
const NEEDED: usize = 8;

/// Returns the number of instances that can be created now, up to `most`.
pub fn left(most: usize) -> usize {
    let created: Vec<_> = (0..most).map_while(|_| inotify::init(CreateFlags::CLOEXEC).ok()).collect();
    created.len()
}

/// Checks that enough instances for a management cluster can be created.
pub(crate) fn check() -> Result<()> {
    match left(NEEDED) {
        NEEDED => Ok(()),
        left => Err(Error::Inotify { left, needed: NEEDED }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_given_back() {
        // More instances than a user can have at once.
        for _ in 0..1_000 {
            assert_eq!(left(3), 3);
        }
    }
}
