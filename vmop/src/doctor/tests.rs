//! Tests for the check codes.

use std::collections::BTreeSet;

use super::checks::ALL;

#[test]
fn codes_are_unique_and_in_order() {
    let codes: BTreeSet<_> = ALL.iter().map(|check| check.code).collect();
    assert_eq!(codes.len(), ALL.len());
    assert!(ALL.is_sorted_by_key(|check| check.code));
}
