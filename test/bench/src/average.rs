//! Averages for each VM.

use std::collections::BTreeMap;
use std::time::Duration;

/// A count as the divisor of an average; no average is taken of nothing.
pub(crate) fn divisor(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX).max(1))
}

/// A sum for each VM.
pub(crate) fn per_vm(sum: u64, count: usize) -> f64 {
    f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / divisor(count)
}

/// Milliseconds of processor time for each VM since `earlier`.
pub(crate) fn cpu_ms_since(
    now: &BTreeMap<String, Duration>,
    earlier: &BTreeMap<String, Duration>,
    count: usize,
) -> BTreeMap<String, f64> {
    let since = |name: &String, now: &Duration| {
        let used = now.saturating_sub(earlier.get(name).copied().unwrap_or_default());
        (name.clone(), used.as_secs_f64() * 1000.0 / divisor(count))
    };
    now.iter().map(|(name, now)| since(name, now)).collect()
}
