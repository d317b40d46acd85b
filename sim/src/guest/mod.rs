//! Guests: the simulated operating systems in the powered-on VMs of the simulated vCenter.
//!
//! A guest reads its whole configuration from guestinfo, as cloud-init does, and becomes a real node: etcd,
//! kube-apiserver and kube-controller-manager are real processes with real certificates, tokens, membership and quorum.
//! A stand-in for kube-scheduler binds Pods. Pods don't have processes, except those that run a known script with their
//! node's shell. A node becomes Ready once a Pod configures its container network. Input that a guest doesn't
//! understand ends the boot, so that a test fails if its cloud-init data is broken.
//!
//! Modules in boot order: [`agent`] (power), `datasource` (guestinfo), `render` (jinja), `cloud_config`, `commands`
//! with `trust`, `volumes` with `udev`, `bootstrap` (kubeadm) with `kubeadm`, `validate`, `certs`, `control_plane` with
//! `host_path`, `discovery`, `etcd`, `objects` with `addons`, then `kubelet` with `node`, `pods` with `program_pods`,
//! `container_images`, `scheduler`, and finally `reporter`.

mod addons;
pub mod agent;
mod boot;
mod bootstrap;
mod certs;
mod cloud_config;
mod commands;
mod container_images;
mod control_plane;
mod datasource;
mod deadline;
mod discovery;
mod disk;
mod etcd;
mod failure;
mod guest_vm;
mod host_path;
mod kubeadm;
mod kubeconfig;
mod kubelet;
mod network;
mod node;
mod objects;
mod pods;
mod program_pods;
mod provoked;
mod proxy;
mod registration;
mod render;
mod reporter;
mod scheduler;
mod trust;
mod udev;
mod validate;
mod virtual_ip;
mod volumes;

#[cfg(test)]
mod mutations;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod story;

pub use agent::{BootReport, Guests, Images, Options, Phase, Release};
pub use boot::{Guest, boot};
pub use container_images::{ContainerImages, Registry};
pub use datasource::{REDACTED, Seed};
pub use disk::Disk;
pub use failure::{Failure, Reason};
pub use guest_vm::{BOOT_TIMEOUT, GuestVm, Programs};
pub use provoked::Provoked;
pub use registration::release_version;
pub use render::cloud_config;
