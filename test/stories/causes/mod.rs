//! Causes that keep a cluster or a VM from coming up: each is provoked, and read where a user looks first.

mod first_boot;
mod first_machine;
mod halted;
mod ill_clusters;
mod missing_prerequisites;
mod nsx;
