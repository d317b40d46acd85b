//! Detects licenses in license and copyright files and returns their SPDX identifiers.

use std::collections::BTreeSet;

/// SPDX identifiers by license name in Debian copyright files (lowercase).
const DEBIAN: [(&str, &str); 34] = [
    ("agpl-3", "AGPL-3.0-only"),
    ("apache-2", "Apache-2.0"),
    ("apache-2.0", "Apache-2.0"),
    ("artistic", "Artistic-1.0-Perl"),
    ("artistic-2", "Artistic-2.0"),
    ("artistic-2.0", "Artistic-2.0"),
    ("bsd-2-clause", "BSD-2-Clause"),
    ("bsd-3-clause", "BSD-3-Clause"),
    ("bsd-4-clause", "BSD-4-Clause"),
    ("bsl-1.0", "BSL-1.0"),
    ("cc0-1.0", "CC0-1.0"),
    ("cddl-1.0", "CDDL-1.0"),
    ("expat", "MIT"),
    ("mit", "MIT"),
    ("mit-0", "MIT-0"),
    ("gfdl-1.3+", "GFDL-1.3-or-later"),
    ("gpl-1", "GPL-1.0-only"),
    ("gpl-1+", "GPL-1.0-or-later"),
    ("gpl-2", "GPL-2.0-only"),
    ("gpl-2+", "GPL-2.0-or-later"),
    ("gpl-3", "GPL-3.0-only"),
    ("gpl-3+", "GPL-3.0-or-later"),
    ("isc", "ISC"),
    ("lgpl-2", "LGPL-2.0-only"),
    ("lgpl-2+", "LGPL-2.0-or-later"),
    ("lgpl-2.0+", "LGPL-2.0-or-later"),
    ("lgpl-2.1", "LGPL-2.1-only"),
    ("lgpl-2.1+", "LGPL-2.1-or-later"),
    ("lgpl-3", "LGPL-3.0-only"),
    ("lgpl-3+", "LGPL-3.0-or-later"),
    ("mpl-2.0", "MPL-2.0"),
    ("openssl", "OpenSSL"),
    ("unlicense", "Unlicense"),
    ("zlib", "Zlib"),
];

/// Returns the license identifiers from a Debian copyright file. Each license applies to some part of the package.
///
/// Returns an empty set if the file isn't in the machine-readable format.
pub(crate) fn of_copyright(text: &str) -> BTreeSet<String> {
    if !text.lines().take(5).any(|line| line.starts_with("Format:")) {
        return BTreeSet::new();
    }
    let named = text.lines().filter_map(|line| line.strip_prefix("License:"));
    named.flat_map(parts).map(|name| identifier(&name)).collect()
}

/// Returns the license names in an expression such as `GPL-2+ or Artistic, and MIT with exception`, in lower case.
fn parts(names: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut is_exception = false;
    for word in names.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "and" | "or" | "and/or" | "|" => is_exception = false,
            "with" => is_exception = true,
            _ if is_exception => {}
            word => parts.push(word.trim_matches(['(', ')']).to_owned()),
        }
    }
    parts
}

fn identifier(name: &str) -> String {
    let plain = name.strip_suffix(".0+").map(|stem| format!("{stem}+"));
    let plain = plain.as_deref().or_else(|| name.strip_suffix(".0")).unwrap_or(name);
    let known = DEBIAN.iter().find(|(debian, _)| *debian == name || *debian == plain);
    known.map_or_else(
        || {
            let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '-' };
            format!("LicenseRef-debian-{}", name.chars().map(clean).collect::<String>())
        },
        |(_, spdx)| (*spdx).to_owned(),
    )
}

/// Returns the SPDX identifier of the license with this text, or `None` if the license isn't known.
pub(crate) fn of_text(text: &str) -> Option<&'static str> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let has = |part: &str| words.contains(part);
    let redistribution = has("redistribution and use in source and binary forms");
    if has("apache license version 2.0") || has("licensed under the apache license, version 2.0") {
        Some("Apache-2.0")
    } else if has("mozilla public license version 2.0") || has("mozilla public license, version 2.0") {
        Some("MPL-2.0")
    } else if redistribution
        && (has("neither the name") || has("may not be used to endorse") || has("names of its contributors"))
    {
        Some("BSD-3-Clause")
    } else if redistribution {
        Some("BSD-2-Clause")
    } else if has("permission is hereby granted, free of charge, to any person obtaining a copy") {
        Some("MIT")
    } else if has("permission to use, copy, modify, and/or distribute this software")
        || has("permission to use, copy, modify, and distribute this software")
    {
        Some("ISC")
    } else if has("this is free and unencumbered software released into the public domain") {
        Some("Unlicense")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copyright_file_names_licences() {
        let text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: GPL-2+ or Expat\n\n\
                    Files: a\nLicense: LGPL-2.1+ with linking exception, and Public-Domain\n\nLicense: MPL-2.0\n text\n";
        let found: Vec<_> = of_copyright(text).into_iter().collect();
        assert_eq!(
            found,
            ["GPL-2.0-or-later", "LGPL-2.1-or-later", "LicenseRef-debian-public-domain", "MIT", "MPL-2.0"]
        );
        assert!(of_copyright("This package was put together by hand.\nLicense: GPL\n").is_empty());
    }

    #[test]
    fn spellings_of_a_version_are_one() {
        assert_eq!(identifier("gpl-2.0+"), "GPL-2.0-or-later");
        assert_eq!(identifier("gpl-3.0"), "GPL-3.0-only");
        assert_eq!(identifier("gpl"), "LicenseRef-debian-gpl");
    }

    #[test]
    fn a_licence_is_known_by_its_text() {
        assert_eq!(of_text("Apache License\n   Version 2.0, January 2004"), Some("Apache-2.0"));
        let bsd = "Redistribution and use in source and binary\nforms, with or without modification";
        assert_eq!(of_text(bsd), Some("BSD-2-Clause"));
        assert_eq!(of_text(&format!("{bsd} * Neither the name of Google Inc.")), Some("BSD-3-Clause"));
        assert_eq!(
            of_text("Permission is hereby granted, free of charge, to any person obtaining a copy"),
            Some("MIT")
        );
        assert_eq!(of_text("All rights reserved."), None);
    }
}
