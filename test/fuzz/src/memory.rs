//! The memory that the program has allocated, and had at its peak.

use peak_alloc::PeakAlloc;

/// Counts what is allocated.
#[global_allocator]
pub static MEMORY: PeakAlloc = PeakAlloc;
