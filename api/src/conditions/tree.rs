//! Finds the first cause in a tree of objects: the problem that everything else waits for.
//!
//! gcm builds the tree from its caches, and `layercake describe` builds it from the objects that it reads. The special
//! cases of each kind are in `special.rs`, so both programs name the same cause.
//!
//! The suspects are the unready objects that only have ready objects below them, and the objects that report a cause of
//! their own. The suspect with the gravest cause wins, as ranked by [`super::cause`]. Among equal causes, an object wins
//! over the object above it, and then the order of the objects decides.
//!
//! Below an object that is being deleted, only objects that are being deleted are suspects, because a deletion doesn't
//! wait for the others.

mod branch;
mod special;
#[cfg(test)]
mod tests;

pub use branch::{ADD_ON, Branch, ConditionView, MachineFacts, Readiness};
pub use special::{NOT_REPORTED, Suspicion, suspicion};

use super::cause::{Cause, gravest};
use super::{contract, tkc};
use branch::MACHINE;

/// An object that may block the tree.
#[derive(Clone, Debug)]
pub struct Suspect<'t, 'a> {
    /// The objects from the root to the suspect.
    pub path: Vec<&'t Branch<'a>>,
    /// The cause, with `Kind name` as its object.
    pub cause: Cause,
}

/// Returns the suspect that everything else in these trees waits for, or `None` if all objects are ready.
///
/// A root that is paused, or whose control plane can't be repaired, is the cause itself, because the objects below it don't
/// change. An add-on only counts if a node isn't ready: the container network is missing.
pub fn first_cause<'t, 'a>(roots: &'t [Branch<'a>]) -> Option<Suspect<'t, 'a>> {
    let last = [contract::PAUSED, tkc::CANNOT_BE_REMEDIATED];
    for root in roots {
        let own = suspicion(root, None).filter(|own| last.contains(&own.cause.reason.as_str()));
        if let Some(Suspicion { cause, .. }) = own {
            return Some(Suspect { path: vec![root], cause });
        }
    }
    let with_add_ons = roots.iter().any(Branch::has_failing_node);
    let mut walk = Walk { with_add_ons, path: Vec::new(), suspects: Vec::new() };
    for root in roots {
        walk.visit(root, false);
    }
    gravest(walk.suspects, |suspect| suspect.cause.severity)
}

struct Walk<'t, 'a> {
    with_add_ons: bool,
    /// The objects above the visited one.
    path: Vec<&'t Branch<'a>>,
    suspects: Vec<Suspect<'t, 'a>>,
}

impl<'t, 'a> Walk<'t, 'a> {
    /// Collects the suspects at and below `branch`. `only_deleting` is true if an object above it is being deleted.
    fn visit(&mut self, branch: &'t Branch<'a>, only_deleting: bool) {
        if branch.kind == ADD_ON && !self.with_add_ons {
            return;
        }
        let before = self.suspects.len();
        let parent = self.path.last().copied();
        self.path.push(branch);
        for child in &branch.children {
            self.visit(child, only_deleting || branch.is_deleting);
        }
        if branch.kind == MACHINE && branch.is_deleting {
            // The Machine shows the stage of its deletion, which says more than an object without a message.
            let below = self.suspects.split_off(before);
            self.suspects.extend(below.into_iter().filter(|suspect| !suspect.cause.message.is_empty()));
        }
        let has_suspect_below = self.suspects.len() > before;
        if (branch.is_deleting || !only_deleting)
            && let Some(Suspicion { cause, own }) = suspicion(branch, parent)
            && (own || !has_suspect_below)
        {
            self.suspects.push(Suspect { path: self.path.clone(), cause });
        }
        self.path.pop();
    }
}
