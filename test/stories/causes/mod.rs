//! Causes that prevent a cluster or VM from coming up. Each story triggers causes and reads them on the user's
//! object.

mod first_boot;
mod first_machine;
mod halted;
mod ill_clusters;
mod missing_prerequisites;
mod nsx;
