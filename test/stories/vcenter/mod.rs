//! Stories about vCenter: its libraries, its privileges and its outages.

mod connection;
mod content_sources;
mod outages;
mod privileges;
