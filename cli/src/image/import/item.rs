//! Finds, creates and removes the library item for an OVA.

use std::fmt;

use anyhow::{Result, bail};
use uuid::Uuid;
use vsphere::automation::{Library, LibraryItem, NewItem, UpdateState};
use vsphere::{Client, Kind};

/// The prefix for the first line of an imported item's description. The OVA's SHA-256 follows the prefix.
const MARK: &str = "layercake-ova-sha256: ";

/// The item to import.
#[derive(Clone, Debug)]
pub struct WantedItem {
    pub library: Library,
    pub name: String,
    /// The SHA-256 of the OVA.
    pub sha256: String,
    /// The OVA's file name, for the description.
    pub file: String,
}

/// The result of searching for an item with the requested name. The strings are item IDs.
#[derive(Debug, PartialEq, Eq)]
pub enum FoundItem {
    Nothing,
    /// An empty item, left by an interrupted import of the same OVA.
    Begun(String),
    /// A complete item from the same OVA.
    Whole(String),
}

/// Finds a library by name or ID. Subscribed libraries are an error, because they don't accept items.
pub async fn find_library(vcenter: &Client, name: &str) -> Result<Library> {
    let mut found = vcenter.find_libraries(name).await?;
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

/// The error for an existing item that has the requested name but different content. The import didn't change anything.
#[derive(Debug)]
pub struct OthersItem(String);

impl fmt::Display for OthersItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OthersItem {}

/// Quotes a word for the shell if necessary.
fn quote(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '@' | '+');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl WantedItem {
    /// Finds the item with the requested name. An item with different content is an error.
    pub async fn find(&self, vcenter: &Client) -> Result<FoundItem> {
        let Self { library, name, sha256, .. } = self;
        for id in vcenter.find_library_items(&library.id, name).await? {
            let Some(item) = allow_missing(vcenter.read_library_item(&id).await)? else { continue };
            let is_empty = vcenter.list_library_item_files(&id).await?.is_empty();
            return match (mark(&item), is_empty) {
                (Some(made_of), true) if made_of == sha256 => Ok(FoundItem::Begun(id)),
                (Some(made_of), false) if made_of == sha256 => Ok(FoundItem::Whole(id)),
                (made_of, is_empty) => bail!(OthersItem(self.other(made_of, is_empty))),
            };
        }
        Ok(FoundItem::Nothing)
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

    /// Creates an empty item with Layercake's mark. If another run has just created an item with this name, checks that
    /// item instead.
    pub async fn create(&self, vcenter: &Client) -> Result<FoundItem> {
        let Self { library, name, sha256, file } = self;
        let item = NewItem {
            library_id: library.id.clone(),
            name: name.clone(),
            description: format!("{MARK}{sha256}\n{}", file.chars().take(255).collect::<String>()),
            kind: "ovf".to_owned(),
        };
        match vcenter.create_library_item(&item, Uuid::new_v4()).await {
            Ok(id) => Ok(FoundItem::Begun(id)),
            Err(error) if matches!(error.kind(), Kind::DuplicateName { .. }) => {
                match self.find(vcenter).await? {
                    FoundItem::Nothing => Err(error.into()),
                    found => Ok(found),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the item of an interrupted import, with its sessions. Returns true if such an item existed.
    pub async fn remove_begun(&self, vcenter: &Client) -> Result<bool> {
        let FoundItem::Begun(id) = self.find(vcenter).await? else { return Ok(false) };
        end_sessions(vcenter, &id).await?;
        allow_missing(vcenter.delete_library_item(&id).await)?;
        Ok(true)
    }
}

/// Returns the SHA-256 of the OVA from which this item was imported, or `None` if Layercake didn't import it.
fn mark(item: &LibraryItem) -> Option<&str> {
    Some(item.description.lines().next()?.strip_prefix(MARK)?.trim())
}

/// Cancels and deletes the update sessions of an item. vCenter only allows one session per item.
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
            // The session has ended since it was read, and vCenter removes it.
            Err(error) if error.is_not_found() || is_not_allowed(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns `Ok(None)` instead of the error with which vCenter reports that an object doesn't exist.
pub fn allow_missing<T>(answer: Result<T, vsphere::Error>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// Returns true if the session's state doesn't allow the call.
pub fn is_not_allowed(error: &vsphere::Error) -> bool {
    has_type(error, "NotAllowedInCurrentState")
}

/// Returns true if the error is a vCenter fault with this type name.
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
