//! An embedded Kubernetes control plane with Cluster API, for one machine: no Docker, no root, no kubelet.
//!
//! etcd, kube-apiserver, kube-controller-manager and Cluster API's managers run as child processes on loopback, as
//! upstream builds them. Our own programs run beside them with the rights, arguments and webhooks that config/
//! declares for a cluster, so that what is missing there is missing here.
//!
//! A [`Stack`] names the processes and the folder that belong together. A [`Guard`] ends them all when this process
//! ends, however it does. [`tools::ensure`] finds or builds the programs, [`Plane::start`] runs them.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod apiserver;
mod capi;
mod certs;
mod cluster;
mod error;
mod etcd;
pub mod guard;
mod guest_proxy;
mod health;
pub mod inotify;
mod kubeconfig;
mod manager;
mod mark;
pub mod members;
pub mod memory;
mod objects;
mod plane;
mod policies;
pub mod ports;
pub mod process;
mod program;
pub mod space;
pub mod stack;
pub mod supervise;
pub mod tools;
pub mod wait;
mod workload;

pub use certs::{Authority, Pair};
pub use error::{Error, Result};
pub use guard::Guard;
pub use objects::{apply, apply_all, apply_within, create_if_missing, delete_all, read, served};
pub use plane::{Options, Plane};
pub use program::{Program, Running};
pub use stack::Stack;
