//! Guest bootstrap data: read from a Secret or ConfigMap, composed for a transport, and set again if the user changes it.

mod cloud_init;
pub mod compose;
pub mod conditions;
mod customization;
pub mod data;
mod netplan;
pub mod observe;
mod properties;
mod property_type;
pub mod report;
#[cfg(test)]
mod tests;
pub mod user_data;
mod values;
#[cfg(test)]
mod vcsim_tests;
