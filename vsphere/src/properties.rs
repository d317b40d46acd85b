//! One-time reads of properties, in pages.

use crate::error::unexpected;
use crate::spec::{filter_spec, object_spec, property_spec, traversal};
use crate::{Client, Kind, MoRef, Object, Result, Value};

/// The initial page size in objects.
const PAGE: u32 = 200;

/// An object and some of its properties.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectContent {
    pub obj: MoRef,
    properties: Vec<(String, Value)>,
}

impl ObjectContent {
    /// Returns the property at a path; null if it is unset.
    pub fn get(&self, path: &str) -> &Value {
        self.properties.iter().find(|(name, _)| name == path).map_or(&Value::Null, |(_, value)| value)
    }

    pub(crate) fn into_properties(self) -> Vec<(String, Value)> {
        self.properties
    }

    fn read(value: Value) -> Option<Self> {
        let obj = value.get("obj").as_moref()?.clone();
        let properties = value
            .take("propSet")
            .into_items()
            .into_iter()
            .filter_map(|property| {
                let name = property.get("name").as_str()?.to_owned();
                Some((name, property.take("val")))
            })
            .collect();
        Some(Self { obj, properties })
    }
}

impl Client {
    /// Reads properties of objects, which may have different types, in one call per page.
    ///
    /// Fails with `NotFound` if one of the objects doesn't exist.
    pub async fn retrieve(&self, objects: &[MoRef], paths: &[&str]) -> Result<Vec<ObjectContent>> {
        let mut kinds: Vec<&str> = objects.iter().map(MoRef::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let properties = kinds.into_iter().map(|kind| property_spec(kind, paths)).collect();
        let objects = objects.iter().map(|object| object_spec(object, false, Vec::new())).collect();
        self.retrieve_spec(filter_spec(properties, objects, false)).await
    }

    /// Reads properties of all objects of type `kind` in `parent`'s property `list`, such as a datacenter's
    /// `datastore`, in one call per page.
    pub async fn retrieve_members(
        &self,
        parent: &MoRef,
        list: &str,
        kind: &str,
        paths: &[&str],
    ) -> Result<Vec<ObjectContent>> {
        let select = vec![traversal(parent.kind(), list, Vec::new())];
        let objects = vec![object_spec(parent, true, select)];
        self.retrieve_spec(filter_spec(vec![property_spec(kind, paths)], objects, false)).await
    }

    /// Reads properties of all objects of type `kind` to which the user has access.
    pub async fn retrieve_all(&self, kind: &str, paths: &[&str]) -> Result<Vec<ObjectContent>> {
        let args = Object::new("CreateContainerViewRequestType")
            .with("container", &self.service("rootFolder")?)
            .with("type", vec![kind])
            .with("recursive", true);
        let view = self.call(&self.service("viewManager")?, "CreateContainerView", Some(args)).await?;
        let view = view.as_moref().cloned();
        let view = view.ok_or_else(|| unexpected("CreateContainerView", "no reference in the answer"))?;
        let members = object_spec(&view, true, vec![traversal("ContainerView", "view", Vec::new())]);
        let found =
            self.retrieve_spec(filter_spec(vec![property_spec(kind, paths)], vec![members], false)).await;
        // Ignore errors: the view ends with the session at the latest.
        drop(self.call(&view, "DestroyView", None).await);
        found
    }

    pub(crate) async fn retrieve_spec(&self, spec: Value) -> Result<Vec<ObjectContent>> {
        let mut found = Vec::new();
        // After a restart with smaller pages, reading begins again at the first object.
        self.retrieve_pages(spec, |first, page| {
            if first {
                found.clear();
            }
            found.extend(page);
        })
        .await?;
        Ok(found)
    }

    /// Calls `read` with each page, so that only one page is in memory at a time.
    ///
    /// If a page is too large, reading starts over with smaller pages. The first argument of `read` is true for the
    /// first page, also after a restart.
    pub(crate) async fn retrieve_pages(
        &self,
        spec: Value,
        mut read: impl FnMut(bool, Vec<ObjectContent>),
    ) -> Result<()> {
        let mut objects = PAGE;
        loop {
            match self.retrieve_by(objects, spec.clone(), &mut read).await {
                Err(error) if objects > 1 && matches!(error.kind(), Kind::TooLarge { .. }) => objects /= 2,
                outcome => return outcome,
            }
        }
    }

    async fn retrieve_by(
        &self,
        objects: u32,
        spec: Value,
        mut read: impl FnMut(bool, Vec<ObjectContent>),
    ) -> Result<()> {
        let collector = self.service("propertyCollector")?;
        let args = Object::new("RetrievePropertiesExRequestType")
            .with("specSet", vec![spec])
            .with("options", Object::new("RetrieveOptions").with("maxObjects", objects));
        let mut page = self.call(&collector, "RetrievePropertiesEx", Some(args)).await?;
        let mut first = true;
        loop {
            let token = page.get("token").as_str().filter(|token| !token.is_empty()).map(str::to_owned);
            let found =
                page.take("objects").into_items().into_iter().filter_map(ObjectContent::read).collect();
            read(std::mem::replace(&mut first, false), found);
            let Some(token) = token else { return Ok(()) };
            let args = Object::new("ContinueRetrievePropertiesExRequestType").with("token", token);
            page = self.call(&collector, "ContinueRetrievePropertiesEx", Some(args)).await?;
        }
    }
}
