//! When unhealthy nodes of a cluster are replaced, and which were.

pub mod budget;
pub mod remediations;
