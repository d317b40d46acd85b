//! Stories about add-ons, storage classes and accounts in workload clusters.

mod addons;
mod limits;
mod provider_accounts;
mod providers;
mod sync;
