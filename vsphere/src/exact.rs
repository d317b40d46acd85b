//! Lists of what is kept for every VM.

/// Collected without room to grow: it is kept for every VM.
pub(crate) fn exact<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.shrink_to_fit();
    items
}
