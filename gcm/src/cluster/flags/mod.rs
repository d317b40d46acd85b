//! Flags that apply to clusters.

pub mod health;
