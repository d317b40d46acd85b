//! The inotify instances that programs of this user can still create. Cluster API's managers exit if they get none.

use rustix::fs::inotify::{self, CreateFlags};

use crate::error::{Error, Result};

/// The instances of a management cluster: three of the API server, one of Kubernetes' controllers, and one of each of Cluster
/// API's managers.
const NEEDED: usize = 8;

/// Returns the number of instances that can be created now, and at most `most`.
pub fn left(most: usize) -> usize {
    let created: Vec<_> = (0..most).map_while(|_| inotify::init(CreateFlags::CLOEXEC).ok()).collect();
    created.len()
}

/// Checks that a management cluster can have the instances that it needs.
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
        // More than a user can have at once.
        for _ in 0..1_000 {
            assert_eq!(left(3), 3);
        }
    }
}
