//! Compares differences with a reviewed list.

use std::collections::BTreeSet;

/// Compares names with a reviewed list: one name per line, and `#` begins a comment.
///
/// Returns a message for each name that isn't listed, and for each listed name that doesn't occur.
pub fn compare(found: &BTreeSet<String>, list: &str, file: &str) -> Vec<String> {
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let allowed: BTreeSet<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let new = found.difference(&allowed).map(|name| {
        format!("{name} is unknown: teach the client what it means, or add it to {file} if the client can ignore it")
    });
    let gone = allowed.difference(found).map(|name| format!("{name} does not occur: remove it from {file}"));
    new.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_too_many_and_a_name_too_few_are_reported() {
        let found = BTreeSet::from(["A".to_owned(), "B".to_owned()]);
        assert_eq!(compare(&found, "# why\nA # why\nB\n", "f"), Vec::<String>::new());
        let reported = compare(&found, "A\nC\n", "f");
        assert!(
            reported[0].starts_with("B is unknown") && reported[1].starts_with("C does not occur"),
            "{reported:?}"
        );
        assert_eq!(reported.len(), 2);
    }
}
