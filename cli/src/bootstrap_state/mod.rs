//! The stored state of bootstrap clusters: their folders, the records of their processes, and the reasons why one does not answer.

pub mod folder;
pub mod record;
pub mod trouble;
