//! Averages per VM.

use std::collections::BTreeMap;
use std::time::Duration;

/// Returns `count` as a divisor, and at least 1, so that an average doesn't divide by zero.
pub(crate) fn divisor(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX).max(1))
}

/// Returns the average per VM.
pub(crate) fn per_vm(sum: u64, count: usize) -> f64 {
    f64::from(u32::try_from(sum).unwrap_or(u32::MAX)) / divisor(count)
}

/// Returns the CPU time per VM since `earlier`, in milliseconds, by process.
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
