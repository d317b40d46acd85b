//! What a guest cluster gets besides its nodes, and what its programs may do in the management cluster.

mod addons;
mod provider_accounts;
mod providers;
mod sync;
