//! What a user of a namespace can do, and what hostile users and guests cannot.

mod hostile_input;
mod identities;
mod machines;
mod people_roles;
mod releases;
mod secrets;
mod vcenter;
