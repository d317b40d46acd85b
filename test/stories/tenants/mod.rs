//! Stories about namespace users' permissions, and about attacks by hostile users and guests.

mod guest_proxy;
mod hostile_guest;
mod hostile_input;
mod identities;
mod kubeconfigs;
mod machines;
mod people_roles;
mod quota;
mod releases;
mod secrets;
mod vcenter;
