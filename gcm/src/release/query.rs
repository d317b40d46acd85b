//! Parses label queries in annotations: `os-name=ubuntu`, `v1.33,!experimental`, `os-name in (photon, ubuntu)`.

use kube::core::{Expression, Selector};

/// The maximum length of a query, in bytes. Namespace users write queries, and each query is evaluated for every release.
const LONGEST: usize = 4096;

/// Parses a query like a Kubernetes label selector. An empty query matches everything. Fails with a description of the fault.
pub fn parse(query: &str) -> Result<Selector, String> {
    if query.len() > LONGEST {
        return Err(format!("it has more than {LONGEST} bytes"));
    }
    terms(query)?.into_iter().map(term).collect()
}

/// Splits a query at commas, except for commas in parentheses, which separate values.
fn terms(query: &str) -> Result<Vec<&str>, String> {
    let (mut terms, mut depth, mut begin) = (Vec::new(), 0_u32, 0);
    for (at, c) in query.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or("it has a ')' without a '('")?,
            ',' if depth == 0 => {
                terms.push(&query[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("it has a '(' without a ')'".to_owned());
    }
    terms.push(&query[begin..]);
    Ok(terms.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect())
}

fn term(text: &str) -> Result<Expression, String> {
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(word(key)?, value_of(value)?));
    }
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Expression::Equal(word(key)?, value_of(value.strip_prefix('=').unwrap_or(value))?));
    }
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(word(key)?));
    }
    let Some((head, values)) = text.split_once('(') else { return Ok(Expression::Exists(word(text)?)) };
    let values = values.strip_suffix(')').ok_or_else(|| format!("{text:?} does not end in ')'"))?;
    let values = values.split(',').map(value_of).collect::<Result<_, _>>()?;
    match head.trim().rsplit_once(char::is_whitespace) {
        Some((key, "in")) => Ok(Expression::In(word(key)?, values)),
        Some((key, "notin")) => Ok(Expression::NotIn(word(key)?, values)),
        _ => Err(format!("{text:?} has neither in nor notin before its parentheses")),
    }
}

/// Parses a label key, which must not be empty.
fn word(text: &str) -> Result<String, String> {
    match value_of(text)? {
        key if key.is_empty() => Err("a term has no key".to_owned()),
        key => Ok(key),
    }
}

fn value_of(text: &str) -> Result<String, String> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a valid key or value of a label"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt;

    use super::*;

    #[test]
    fn queries_are_those_of_label_selectors() {
        let labels = BTreeMap::from(
            [("os-name", "ubuntu"), ("v1.33", ""), ("a/b", "c")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        for (query, expected) in [
            ("", true),
            ("os-name=ubuntu", true),
            ("os-name == ubuntu , v1.33", true),
            ("os-name!=ubuntu", false),
            ("os-name in (photon, ubuntu)", true),
            ("os-name notin (photon,ubuntu),v1.33", false),
            ("!v1.34,a/b=c", true),
            ("v1.34", false),
            ("v1.33=", true),
        ] {
            assert_eq!(parse(query).unwrap().matches(&labels), expected, "{query}");
        }
        for wrong in ["a b", "a in (b", "a in b)", "a of (b)", "=b", "!", "a=b=c", "os-name>3", "in (a)"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&"a,".repeat(LONGEST / 2)).is_ok());
        assert!(parse(&"a,".repeat(LONGEST)).is_err());
    }
}
