//! Stories about installation: the manifests, the release files, and an upgrade.

mod clusterctl_release;
mod init;
mod page;
pub mod programs;
mod upgrade;
