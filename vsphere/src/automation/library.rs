//! Content libraries and what is in them.

use crate::{Client, Error, Kind, Result};

/// A content library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `LOCAL` or `SUBSCRIBED`.
    pub kind: String,
}

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryItem {
    /// Its UUID.
    pub id: String,
    /// The library it is in.
    pub library_id: String,
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Such as `ovf` or `iso`.
    pub kind: String,
    /// Changes with every change of the item.
    pub version: String,
    /// Changes with every change of its files; what a golden template is made of.
    pub content_version: String,
    /// Size of its files in bytes.
    pub size: u64,
    /// When it was made.
    pub created: Option<jiff::Timestamp>,
    /// Whether its files are here; false for a subscribed item that was not fetched.
    pub cached: bool,
}

impl Client {
    /// The library with that id.
    pub async fn library(&self, id: &str) -> Result<Library> {
        Err(stub(id))
    }

    /// The libraries with that name; names need not be unique.
    pub async fn libraries_named(&self, name: &str) -> Result<Vec<Library>> {
        Err(stub(name))
    }

    /// The ids of a library's items.
    pub async fn library_items(&self, library_id: &str) -> Result<Vec<String>> {
        Err(stub(library_id))
    }

    /// An item.
    pub async fn library_item(&self, id: &str) -> Result<LibraryItem> {
        Err(stub(id))
    }

    /// The text of an OVF item's descriptor, by a download session.
    pub async fn ovf_descriptor(&self, item_id: &str) -> Result<String> {
        Err(stub(item_id))
    }
}

fn stub(object: &str) -> Error {
    Error::new("automation", Kind::Unsupported { what: "not written yet".into() }).on(object)
}
