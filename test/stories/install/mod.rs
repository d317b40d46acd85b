//! Installation by an administrator: the folders of config/, a release's files, an upgrade of Layercake.

mod clusterctl_release;
mod config_folders;
mod init;
pub mod metrics;
mod page;
mod upgrade;
