//! Written by `hack/generate`; see [`crate::capi`].
#![allow(missing_docs, unused_imports, clippy::all, clippy::pedantic, rustdoc::all)]

pub mod clusters;
pub mod ipaddressclaims;
pub mod ipaddresses;
pub mod kubeadmconfigtemplates;
pub mod kubeadmcontrolplanes;
pub mod machinedeployments;
pub mod machinehealthchecks;
pub mod machines;
pub mod machinesets;
pub mod shared;
