//! Measures the program's current and peak memory allocation.

use peak_alloc::PeakAlloc;

/// The allocator, which counts allocated bytes.
#[global_allocator]
pub static MEMORY: PeakAlloc = PeakAlloc;
