//! Http
