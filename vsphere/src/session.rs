//! Session
