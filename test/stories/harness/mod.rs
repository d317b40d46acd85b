//! Shared code for stories: stacks, namespaces, waiting and scheduling.

pub mod cert_manager;
pub mod command;
pub mod documented_commands;
pub mod home;
pub mod issuer;
pub mod killed_client;
pub mod nodeless;
pub mod objects;
pub mod ova;
pub mod own_server;
pub mod page_blocks;
pub mod plain_vm;
pub mod real_site;
pub mod requests;
pub mod schedule;
pub mod second_cluster;
pub mod shared_stack;
pub mod story;
pub mod tenants;
pub mod vsphere_soap;
