//! Compact vectors for data that is kept for every VM.

/// Collects items into a vector without spare capacity, to save memory.
pub(crate) fn exact<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.shrink_to_fit();
    items
}
