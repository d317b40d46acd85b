//! Flags that apply to clusters.

pub mod health;
pub mod virtual_ip;
