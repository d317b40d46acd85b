//! Add-ons for workload clusters, such as the container network.
//!
//! A *bundle* contains plain manifests, and templates with a few typed values. It comes from a ConfigMap in the cluster's
//! namespace ([`config_map`]), from the release's node image ([`image`]), or from gcm itself ([`builtin`]). A cluster's
//! reconcile chooses the bundles ([`choice`]) and leaves them in [`guests`]. The guest's [`controller`] applies them in the
//! workload cluster, corrects drift, and reports. The [`report`] becomes status.
//!
//! | module | contents |
//! |---|---|
//! | [`choice`] | the bundles for a cluster, and their precedence |
//! | [`config_map`], [`image`], [`builtin`] | bundle sources |
//! | [`own_objects`] | object sets that gcm generates and that are not add-ons ([`crate::sync`]) |
//! | [`bundle`], [`render`], [`manifest`] | bundle files, and the objects that are parsed from them |
//! | [`node_bound`] | objects whose container images only exist on nodes of the release |
//! | [`apply_set`], [`marks`], [`health`], [`drift`] | object set labels, health checks, and drift detection |
//! | [`pods`] | reasons why Pods don't start |
//! | [`report`] | add-on state, as status and cause |
//! | [`progress`] | state between rounds, and their intervals |
//! | [`sources`] | reads bundles from their sources |
//! | [`guest`] | requests to the workload cluster's API server |
//! | [`kubeadm`] | CoreDNS and kube-proxy, which kubeadm applies |
//! | [`survey`] | checks for the programs that storage classes and accounts need |
//! | [`api_servers`] | checks if API servers use the cluster's token issuers |
//! | [`deployment`], [`session`], [`guests`] | one add-on in a cluster, one connection to a cluster, all clusters |
//! | [`controller`] | the rounds |
//!
//! Tenants control the workload cluster. Responses are therefore limited in size and time, lists in length, and messages in
//! characters, and responses only affect the reported status. All modules are pure, except [`guest`], [`sources`] and the modules
//! in the last five rows.

pub mod api_servers;
pub mod apply_set;
pub mod builtin;
pub mod bundle;
pub mod choice;
pub mod config_map;
pub mod controller;
pub mod deployment;
pub mod drift;
pub mod guest;
pub mod guests;
pub mod health;
pub mod image;
pub mod kubeadm;
pub mod manifest;
pub mod marks;
pub mod node_bound;
pub mod own_objects;
pub mod pods;
pub mod progress;
pub mod render;
pub mod report;
pub mod session;
pub mod sources;
pub mod survey;
