//! Unhealthy nodes: replacement limits, and the record of each replaced node.

pub mod budget;
pub mod first_node;
pub mod remediations;
