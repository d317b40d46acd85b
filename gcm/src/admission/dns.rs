//! Checks DNS labels and subdomains.

/// Returns true for a DNS label: at most 63 lower-case letters, digits and `-`, neither beginning nor ending with `-`.
pub fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true for at most 253 characters of DNS labels joined by dots.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}
