//! Installation by an administrator: the folders of config/, a release's files, an upgrade of Layercake.

mod clusterctl_release;
mod config_folders;
pub mod metrics;
mod upgrade;
