//! Guests: what runs in a powered-on VM of the simulated vCenter.
//!
//! A guest learns everything from its VM's guestinfo, as cloud-init would, and becomes a real node: etcd,
//! kube-apiserver and kube-controller-manager are real, and so are certificates, tokens, membership and quorum. Pods are
//! bound by a stand-in of kube-scheduler and have no processes, except those that run a known script with the shell of their node; a node
//! is Ready once a Pod configured its container network. What a guest does not understand ends its boot, so a broken cloud-init breaks the story that made it.
//!
//! From VM to node, one file each: [`agent`] (power), `datasource` (guestinfo), `render` (jinja), `cloud_config`,
//! `commands` with `trust`, `volumes` with `udev`, `bootstrap` (kubeadm) with `kubeadm`, `validate`, `certs`, `control_plane` with `host_path`, `discovery`, `etcd`,
//! `objects` with `addons`, then `kubelet` with `node`, `pods` with `program_pods`, and `container_images`, `scheduler`, and at last `reporter`.

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
