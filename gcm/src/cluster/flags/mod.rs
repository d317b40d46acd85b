//! Flags that clusters are made with.

pub mod health;
pub mod virtual_ip;
