//! Gate
