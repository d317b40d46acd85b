//! Add-ons: what a guest needs besides its nodes, the container network above all.
//!
//! A *bundle* is plain manifests, of which some files are templates of a few typed values. It comes from a ConfigMap of
//! the cluster's namespace ([`config_map`]), from the node image of the release ([`image`]), or from this program
//! ([`builtin`]). The reconcile of a cluster chooses the bundles ([`choice`]) and hands them to the [`engine`], which has a
//! task for each cluster: it applies them in the guest, keeps them so, and reports. The [`report`] becomes status.
//!
//! | module | what is in it |
//! |---|---|
//! | [`choice`] | which bundles a cluster gets, and which of several of one name |
//! | [`config_map`], [`image`], [`builtin`] | where bundles come from |
//! | [`own_objects`] | sets of objects that this program makes itself, and that are no add-ons ([`crate::sync`]) |
//! | [`bundle`], [`render`], [`manifest`] | from a bundle's texts to objects |
//! | [`node_bound`] | objects that only nodes of the release have the container images of |
//! | [`apply_set`], [`marks`], [`health`], [`drift`] | labels of what belongs together; whether it works; what others changed |
//! | [`pods`] | why Pods do not start |
//! | [`report`] | how add-ons are, as status and cause |
//! | [`rhythm`] | the time between two looks at a guest |
//! | [`guest`] | the guest's API server, and what is asked of it |
//! | [`kubeadm`] | CoreDNS and kube-proxy, which are no add-ons of ours |
//! | [`survey`] | the programs in the guest that its storage classes and accounts need |
//! | [`api_servers`] | whether the API servers use the issuers of the cluster |
//! | [`deployment`], [`session`], [`engine`] | one add-on in a guest, one guest, all clusters |
//!
//! The guest is its tenant's. Answers are bounded in size and time, lists in their number, messages in length; nothing
//! that a guest says decides anything but the status of its add-ons. All but the modules of the last four lines and of [`guest`]
//! are pure.

pub mod api_servers;
pub mod apply_set;
pub mod builtin;
pub mod bundle;
pub mod choice;
pub mod config_map;
pub mod deployment;
pub mod drift;
pub mod engine;
pub mod guest;
pub mod health;
pub mod image;
pub mod kubeadm;
pub mod manifest;
pub mod marks;
pub mod node_bound;
pub mod own_objects;
pub mod pods;
pub mod render;
pub mod report;
pub mod rhythm;
pub mod session;
pub mod survey;
