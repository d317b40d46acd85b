//! ExtraConfig: a VM's key-value settings that vCenter doesn't interpret.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Keys and values, in the order in which they are set. An empty value removes the key.
///
/// `Debug` hides `guestinfo` values, because they contain keys and tokens for the guest.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ExtraConfig(Vec<(String, String)>);

impl fmt::Debug for ExtraConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(key, value)| {
            let secret = key.starts_with("guestinfo.") && !value.is_empty();
            (key.as_str(), if secret { "…" } else { value.as_str() })
        });
        f.debug_list().entries(shown).finish()
    }
}

impl Deref for ExtraConfig {
    type Target = Vec<(String, String)>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ExtraConfig {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<Vec<(String, String)>> for ExtraConfig {
    fn from(entries: Vec<(String, String)>) -> Self {
        Self(entries)
    }
}

impl IntoIterator for ExtraConfig {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(String, String)> for ExtraConfig {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_the_data_of_a_guest() {
        let given =
            [("guestinfo.userdata", "SECRET"), ("guestinfo.vendordata", ""), ("disk.enableUUID", "TRUE")];
        let given: ExtraConfig =
            given.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        let printed = format!("{given:?}");
        assert!(!printed.contains("SECRET") && printed.contains("guestinfo.userdata"), "{printed}");
        assert!(printed.contains(r#"("disk.enableUUID", "TRUE")"#), "{printed}");
    }
}
