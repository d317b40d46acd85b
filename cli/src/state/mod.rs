//! The durable state on this machine: background processes with their records, the folders of bootstrap clusters, and the reasons
//! why a bootstrap cluster doesn't respond.

pub mod daemon;
pub mod folder;
pub mod home;
pub mod record;
pub mod trouble;
pub(crate) mod wait;
