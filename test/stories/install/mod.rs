//! Stories about installation: the folders in config/, the release files, and an upgrade.

mod clusterctl_release;
mod config_folders;
mod init;
pub mod metrics;
mod page;
mod upgrade;
