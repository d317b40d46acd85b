//! The folder for durable state, unlike the cache: bootstrap clusters, the simulated site and the background stack.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Returns `$XDG_STATE_HOME/layercake`. The default is `~/.local/state/layercake`.
///
/// # Errors
/// Returns an error if there is no home folder.
pub fn folder() -> Result<PathBuf> {
    let found = folder_of(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir());
    found.context("there is no home folder: set XDG_STATE_HOME")
}

fn folder_of(variable: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    // The XDG Base Directory Specification says to ignore relative paths.
    let named = variable.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named.or_else(|| Some(home?.join(".local/state")))?;
    Some(state.join("layercake"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_that_of_the_variable_or_below_home() {
        let of = |variable: Option<&str>| {
            folder_of(variable.map(Into::into), Some("/home/ann".into())).unwrap().display().to_string()
        };
        assert_eq!(of(Some("/state")), "/state/layercake");
        for ignored in [None, Some(""), Some("state")] {
            assert_eq!(of(ignored), "/home/ann/.local/state/layercake");
        }
        assert!(folder_of(None, None).is_none());
    }
}
