//! Add-ons, storage classes and accounts of guest clusters.

mod addons;
mod provider_accounts;
mod providers;
mod sync;
