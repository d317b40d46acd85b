//! Replacement of unhealthy nodes: its limits, and the nodes that were replaced.

pub mod budget;
pub mod first_node;
pub mod remediations;
