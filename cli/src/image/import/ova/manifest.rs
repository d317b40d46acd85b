//! Parses an OVA manifest, which contains a digest for each file, and verifies the files.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::part::{AGAIN, OvaFile};

/// SHA-256 digests by file name, from lines such as `SHA256(node.ovf)= 0a1b…`.
pub type Digests = BTreeMap<String, String>;

/// Parses a manifest. Fails if a line isn't a SHA-256 digest.
pub fn read(text: &str) -> Result<Digests> {
    let mut digests = Digests::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (algorithm, name, digest) = split(line)?;
        if !algorithm.eq_ignore_ascii_case("SHA256") {
            bail!(
                "its digests are {algorithm}, but only SHA256 is supported. Pack it again: ovftool --shaAlgorithm=sha256 OLD.ova NEW.ova"
            );
        }
        digests.insert(name.to_owned(), digest.to_ascii_lowercase());
    }
    Ok(digests)
}

/// Splits a line into algorithm, file name and digest. File names may contain parentheses, so the last closing
/// parenthesis ends the name.
fn split(line: &str) -> Result<(&str, &str, &str)> {
    let parts = line.rsplit_once(')').and_then(|(before, digest)| {
        let (algorithm, name) = before.split_once('(')?;
        Some((
            algorithm.trim(),
            name.strip_prefix("./").unwrap_or(name),
            digest.trim().strip_prefix('=')?.trim(),
        ))
    });
    match parts {
        Some(parts) => Ok(parts),
        None => bail!("the line {line:?} is not of the form SHA256(FILE)= DIGEST"),
    }
}

/// Fails if a file in the manifest is missing from the OVA, or if its digest differs.
pub fn compare(digests: &Digests, parts: &[OvaFile]) -> Result<()> {
    for (name, digest) in digests {
        let Some(part) = parts.iter().find(|part| part.name == *name) else {
            bail!(
                "it does not contain {name}, which its manifest names, so it was truncated or repacked. {AGAIN}"
            );
        };
        if part.sha256 != *digest {
            bail!(
                "{name} is damaged: its SHA-256 is {}, but the manifest has {digest}. {AGAIN}",
                part.sha256
            );
        }
    }
    Ok(())
}

/// Fails if one of the parts is missing from the manifest.
pub fn covers(digests: &Digests, parts: &[OvaFile]) -> Result<()> {
    match parts.iter().find(|part| !digests.contains_key(&part.name)) {
        Some(part) => bail!("its manifest has no digest of {}. {AGAIN}", part.name),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_others_write_them() {
        let text = "SHA256(node.ovf)= AB\n\nSHA256(disk (1).vmdk) = cd\r\n";
        let digests = read(text).unwrap();
        assert_eq!(digests["node.ovf"], "ab");
        assert_eq!(digests["disk (1).vmdk"], "cd");
        for (wrong, why) in
            [("SHA1(node.ovf)= ab", "SHA1"), ("node.ovf ab", "not of the form"), ("SHA256(a) ab", "form")]
        {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
