//! Management clusters and simulated sites that run as processes on this machine.
//!
//! [`guarded`] starts the processes of a stack so that none is left, and `serve` runs them in the background. The parts of a
//! stack are a management cluster ([`cluster`]), which [`configure`] connects to a site, and a simulated site
//! ([`simulated_site`]). A bootstrap cluster has only the first part and keeps its folder, `site simulate` runs only the
//! second, and `up` runs both in a folder that isn't kept ([`stack`]).
//!
//! [`bootstrap`], [`simulate`] and [`up`] are the commands, and [`target`] opens the cluster that any other command acts on.

pub mod bootstrap;
pub mod cluster;
pub mod configure;
pub mod console;
pub mod guarded;
pub(crate) mod serve;
pub mod session;
pub mod simulate;
pub mod simulated_site;
pub mod stack;
pub mod target;
pub mod up;
