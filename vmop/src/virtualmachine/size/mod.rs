//! VM size: CPU, memory and virtual hardware, as defined by the class.

pub mod class;
pub mod conditions;
pub mod observe;
pub mod resize;
