//! Stories on the real stack: what a user does, and what the user then sees.
//!
//! The first story to run starts the stack; the guard removes it when the test program ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod addons;
mod admission;
mod autoscaler;
mod bundle;
mod causes;
mod cluster_life;
mod cluster_move;
mod clusterctl_move;
mod clusterctl_release;
mod config_folders;
mod content_sources;
mod day_two;
mod day_two_causes;
mod doctor;
mod documented_commands;
mod first_boot;
mod guest_providers;
mod guest_sync;
mod halted;
mod hostile_input;
mod idle;
mod ill_clusters;
mod image_import;
mod layercake_command;
mod metrics;
mod missing_prerequisites;
mod networks;
mod node_disks;
mod node_image;
mod node_pools;
mod nsx_causes;
mod other_kinds;
mod outages;
mod own_server;
mod people_roles;
mod plain_cluster_move;
mod plain_clusters;
mod plain_vm;
mod privileges;
mod provider_accounts;
mod real_node;
mod real_site;
mod release_upgrade;
mod requests;
mod schedule;
mod second_cluster;
mod shared_stack;
mod story;
mod tenants;
mod tenants_identities;
mod tenants_machines;
mod tenants_releases;
mod tenants_secrets;
mod tenants_vcenter;
mod upgrade;
mod vcenter_outage;
mod virtual_machines_page;
mod virtualmachine_rules;
mod vm_identity;
mod vmop_crash;
mod volumes;
mod vsphere_soap;
