//! An embedded Kubernetes control plane with Cluster API for one machine. It doesn't need Docker, root or a kubelet.
//!
//! etcd, kube-apiserver, kube-controller-manager and Cluster API's managers are the upstream programs, run as child
//! processes on loopback. Layercake's own programs run beside them with the rights, arguments and webhooks that
//! config/ declares for a cluster, so that a gap in config/ also causes errors here.
//!
//! A [`StackIdentity`] identifies the processes and the folder that belong together. A [`Guard`] kills the processes when this
//! process ends, even after `kill -9`. [`tools::ensure`] finds or builds the programs, and [`Plane::start`] runs them.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod apiserver;
mod capi;
mod certs;
mod cluster;
pub mod digest;
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
mod plane;
mod policies;
pub mod ports;
pub mod process;
mod program;
mod rights;
pub mod space;
pub mod stack;
pub mod supervise;
pub mod tools;
pub mod wait;
mod workload;

pub use error::{Error, Result};
pub use guard::Guard;
pub use plane::{Options, Plane};
pub use program::{Program, Running};
pub use stack::StackIdentity;
