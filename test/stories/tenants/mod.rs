//! Rights of users of a namespace, and attacks of hostile users and guests.

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
