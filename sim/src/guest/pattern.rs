//! Names in which `*` stands for anything.

/// Whether a name fits a pattern.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => match name.strip_prefix(start) {
            None => false,
            Some(tail) => {
                tail.char_indices().map(|(at, _)| at).chain([tail.len()]).any(|at| fits(rest, &tail[at..]))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_hold_names() {
        for (pattern, name, expected) in [
            ("*", "anything", true),
            ("c-control-plane-*", "c-control-plane-x1", true),
            ("c-control-plane-*", "c-workers-x1", false),
            ("*-plane-*1", "c-control-plane-x1", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
