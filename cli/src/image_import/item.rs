//! The item of the library that an OVA becomes: is it there, whose is it, may it be made.

use std::fmt;

use anyhow::{Result, bail};
use uuid::Uuid;
use vsphere::automation::{Library, LibraryItem, NewItem, UpdateState};
use vsphere::{Client, Kind};

/// The first line of the description of an item that an import made: the SHA-256 of its OVA.
const MARK: &str = "layercake-ova-sha256: ";

/// An item as an import wants it.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub library: Library,
    pub name: String,
    /// The SHA-256 of the OVA.
    pub sha256: String,
    /// The name of the OVA's file, for people.
    pub file: String,
}

/// What a library has of the name that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// The item of an import of the same OVA that was broken off: it has no files.
    Begun(String),
    /// An item of the same OVA.
    Whole(String),
}

/// The library of that name or id, which must take items.
pub async fn find_library(vcenter: &Client, name: &str) -> Result<Library> {
    let mut found = vcenter.libraries_named(name).await?;
    if found.is_empty() && Uuid::try_parse(name).is_ok() {
        found.extend(allow_missing(vcenter.library(name).await)?);
    }
    let library = match found.len() {
        0 => bail!(
            "vCenter has no content library {name}. Create it, or pass the name or the id of another one with --library"
        ),
        1 => found.remove(0),
        _ => {
            let ids: Vec<_> = found.iter().map(|library| library.id.as_str()).collect();
            bail!(
                "vCenter has {} content libraries with the name {name}. Pass the id of one with --library: {}",
                ids.len(),
                ids.join(", ")
            )
        }
    };
    if library.kind.eq_ignore_ascii_case("SUBSCRIBED") {
        bail!(
            "content library {name} is a subscribed library, which accepts no items. Import into the library that it subscribes to"
        );
    }
    Ok(library)
}

/// An item of the same name has other content: the import made nothing.
#[derive(Debug)]
pub struct OthersItem(String);

impl fmt::Display for OthersItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OthersItem {}

/// Returns the word as a shell needs it.
fn quote(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '@' | '+');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Wanted {
    /// What the library has of that name; an item of other content is an error.
    pub async fn find(&self, vcenter: &Client) -> Result<Found> {
        let Self { library, name, sha256, .. } = self;
        for id in vcenter.library_items_named(&library.id, name).await? {
            let Some(item) = allow_missing(vcenter.library_item(&id).await)? else { continue };
            let is_empty = vcenter.library_item_files(&id).await?.is_empty();
            return match (mark(&item), is_empty) {
                (Some(made_of), true) if made_of == sha256 => Ok(Found::Begun(id)),
                (Some(made_of), false) if made_of == sha256 => Ok(Found::Whole(id)),
                (made_of, is_empty) => bail!(OthersItem(self.other(made_of, is_empty))),
            };
        }
        Ok(Found::Nothing)
    }

    fn other(&self, made_of: Option<&str>, is_empty: bool) -> String {
        let Self { library, name, sha256, file } = self;
        let what = match (made_of, is_empty) {
            (Some(made_of), false) => {
                format!("of another OVA, whose SHA-256 is {made_of}; that of {file} is {sha256}")
            }
            (Some(_), true) => "of another OVA, whose import was interrupted".to_owned(),
            (None, false) => "that no import created".to_owned(),
            (None, true) => "without files that no import created".to_owned(),
        };
        format!(
            "content library {} has an item {name} {what}. Pass another name with --name, or remove that item: govc library.rm {}",
            library.name,
            quote(&format!("{}/{name}", library.name)),
        )
    }

    /// Makes the item, empty and marked. An item that somebody else made at the same moment is looked at.
    pub async fn create(&self, vcenter: &Client) -> Result<Found> {
        let Self { library, name, sha256, file } = self;
        let item = NewItem {
            library_id: library.id.clone(),
            name: name.clone(),
            description: format!("{MARK}{sha256}\n{}", file.chars().take(255).collect::<String>()),
            kind: "ovf".to_owned(),
        };
        match vcenter.create_library_item(&item, Uuid::new_v4()).await {
            Ok(id) => Ok(Found::Begun(id)),
            Err(error) if matches!(error.kind(), Kind::DuplicateName { .. }) => {
                match self.find(vcenter).await? {
                    Found::Nothing => Err(error.into()),
                    found => Ok(found),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what an import has begun and not ended, with its sessions; tells whether there was such.
    pub async fn remove_begun(&self, vcenter: &Client) -> Result<bool> {
        let Found::Begun(id) = self.find(vcenter).await? else { return Ok(false) };
        end_sessions(vcenter, &id).await?;
        allow_missing(vcenter.delete_library_item(&id).await)?;
        Ok(true)
    }
}

/// The SHA-256 of the OVA that an import has made the item of.
fn mark(item: &LibraryItem) -> Option<&str> {
    Some(item.description.lines().next()?.strip_prefix(MARK)?.trim())
}

/// Ends and removes the update sessions of an item: an item has one at a time.
pub async fn end_sessions(vcenter: &Client, item: &str) -> Result<()> {
    for session in vcenter.update_sessions(item).await? {
        let ended = async {
            if vcenter.update_session(&session).await?.state == UpdateState::Active {
                vcenter.cancel_update(&session).await?;
            }
            vcenter.delete_update(&session).await
        };
        match ended.await {
            Ok(()) => {}
            // It ended by itself, and vCenter removes it.
            Err(error) if error.is_not_found() || is_not_allowed(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns what vCenter answers about an object; none if the object does not exist any more.
pub fn allow_missing<T>(answer: Result<T, vsphere::Error>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// Whether a session's state does not allow the call.
pub fn is_not_allowed(error: &vsphere::Error) -> bool {
    has_type(error, "NotAllowedInCurrentState")
}

/// Whether vCenter refused with an error of that type.
pub fn has_type(error: &vsphere::Error, name: &str) -> bool {
    error.fault().is_some_and(|fault| fault.type_name == name)
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn words_are_quoted_where_a_shell_would_divide_them() {
        for (word, quoted) in [
            ("lib/unit-1.0", "lib/unit-1.0"),
            ("My lib/a b", "'My lib/a b'"),
            ("a/it's", "'a/it'\\''s'"),
            ("a/$x", "'a/$x'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
