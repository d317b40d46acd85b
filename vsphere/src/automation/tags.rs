//! Tags: words of a category that administrators, and rules of DRS, know objects by.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::call::Call;
use crate::style::Form;
use crate::{Client, Error, MoRef, Result};

/// A category of tags.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Category {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Tag {
    /// Its id.
    pub id: String,
    /// Its name; the category gives it once.
    pub name: String,
    /// The id of its category.
    pub category_id: String,
}

impl Client {
    /// The ids of all categories.
    pub async fn tag_categories(&self) -> Result<Vec<String>> {
        self.automation("tag categories", self.reading(), |form| Call::get(path(form, "category"))).await
    }

    /// A category.
    pub async fn tag_category(&self, id: &str) -> Result<Category> {
        self.automation("tag category", self.reading(), |form| Call::get(path_of(form, "category", id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// Creates a category of which an object bears one tag at most, and gives its id.
    pub async fn create_tag_category(&self, name: &str, description: &str) -> Result<String> {
        let spec = json!({
            "name": name, "description": description, "cardinality": "SINGLE", "associable_types": [],
        });
        self.automation("tag category create", self.once_only(), |form| {
            Call::post(path(form, "category"), wrapped(form, &spec))
        })
        .await
        .map_err(|error: Error| error.on(name))
    }

    /// The ids of a category's tags.
    pub async fn tags_of_category(&self, category: &str) -> Result<Vec<String>> {
        self.automation("tags", self.reading(), |form| match form {
            Form::Api => Call::post(
                format!("{}?action=list-tags-for-category", path(form, "tag")),
                json!({ "category_id": category }),
            ),
            Form::Rest => Call::post_nothing(format!(
                "{}?~action=list-tags-for-category",
                path_of(form, "tag", category)
            )),
        })
        .await
        .map_err(|error: Error| error.on(category))
    }

    /// A tag.
    pub async fn tag(&self, id: &str) -> Result<Tag> {
        self.automation("tag", self.reading(), |form| Call::get(path_of(form, "tag", id)))
            .await
            .map_err(|error: Error| error.on(id))
    }

    /// Creates a tag, and gives its id.
    pub async fn create_tag(&self, category: &str, name: &str, description: &str) -> Result<String> {
        let spec = json!({ "category_id": category, "name": name, "description": description });
        self.automation("tag create", self.once_only(), |form| {
            Call::post(path(form, "tag"), wrapped(form, &spec))
        })
        .await
        .map_err(|error: Error| error.on(name))
    }

    /// The object bears the tag; one that bore it before goes on doing so.
    pub async fn attach_tag(&self, tag: &str, object: &MoRef) -> Result<()> {
        self.associate("attach", tag, object).await
    }

    /// The object does not bear the tag.
    pub async fn detach_tag(&self, tag: &str, object: &MoRef) -> Result<()> {
        self.associate("detach", tag, object).await
    }

    async fn associate(&self, action: &str, tag: &str, object: &MoRef) -> Result<()> {
        let body = json!({ "object_id": { "type": object.kind(), "id": object.id() } });
        let done: Result<Json> = self
            .automation("tag attach", self.reading(), |form| {
                let mark = if form == Form::Api { "" } else { "~" };
                Call::post(
                    format!("{}?{mark}action={action}", path_of(form, "tag-association", tag)),
                    body.clone(),
                )
            })
            .await;
        done.map(drop).map_err(|error| error.on(object))
    }

    /// The ids of the tags that an object bears.
    pub async fn attached_tags(&self, object: &MoRef) -> Result<Vec<String>> {
        let body = json!({ "object_id": { "type": object.kind(), "id": object.id() } });
        self.automation("tags attached", self.reading(), |form| {
            let mark = if form == Form::Api { "" } else { "~" };
            Call::post(
                format!("{}?{mark}action=list-attached-tags", path(form, "tag-association")),
                body.clone(),
            )
        })
        .await
        .map_err(|error: Error| error.on(object))
    }
}

fn path(form: Form, what: &str) -> String {
    match form {
        Form::Api => format!("/api/cis/tagging/{what}"),
        Form::Rest => format!("/rest/com/vmware/cis/tagging/{what}"),
    }
}

fn path_of(form: Form, what: &str, id: &str) -> String {
    let of = if form == Form::Api { "" } else { "id:" };
    format!("{}/{of}{}", path(form, what), percent_encoding::utf8_percent_encode(id, PLAIN))
}

/// A tag's id holds colons, which belong to it.
const PLAIN: &percent_encoding::AsciiSet =
    &percent_encoding::CONTROLS.add(b' ').add(b'/').add(b'?').add(b'#');

fn wrapped(form: Form, spec: &Json) -> Json {
    match form {
        Form::Api => spec.clone(),
        Form::Rest => json!({ "create_spec": spec }),
    }
}
