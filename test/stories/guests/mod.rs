//! Add-ons, storage classes and accounts of guest clusters.

mod addons;
mod limits;
mod provider_accounts;
mod providers;
mod sync;
