//! The stored state of bootstrap clusters: their folders, their process records, and the reasons why a bootstrap
//! cluster doesn't respond.

pub mod folder;
pub mod record;
pub mod trouble;
