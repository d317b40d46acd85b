//! The simulated vCenter: its files, its process, its node images, and a client for its control API.
//!
//! The program itself is written in Go. Its source is in sim/vcsim.

pub(crate) mod addons;
pub mod control;
mod endpoint;
mod error;
mod files;
pub mod further_release;
pub mod library;
mod nodes;
mod process;
pub mod releases;

pub use endpoint::VcenterEndpoint;
pub use error::Error;
pub use nodes::NodeRuntime;
pub use process::Simulator;
