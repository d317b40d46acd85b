//! Reading properties once, in batches.

use crate::error::unexpected;
use crate::spec::{filter_spec, object_spec, property_spec, traversal};
use crate::{Client, Kind, MoRef, Object, Result, Value};

/// Objects per page at first.
const PAGE: u32 = 200;

/// Some properties of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectContent {
    /// The object.
    pub obj: MoRef,
    properties: Vec<(String, Value)>,
}

impl ObjectContent {
    /// The property of that path; null if it is unset.
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
    /// Reads properties of objects, all in one call; the objects may be of several types.
    ///
    /// Fails with `NotFound` if one of the objects is gone.
    pub async fn retrieve(&self, objects: &[MoRef], paths: &[&str]) -> Result<Vec<ObjectContent>> {
        let mut kinds: Vec<&str> = objects.iter().map(MoRef::kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let properties = kinds.into_iter().map(|kind| property_spec(kind, paths)).collect();
        let objects = objects.iter().map(|object| object_spec(object, false, Vec::new())).collect();
        self.retrieve_spec(filter_spec(properties, objects, false)).await
    }

    /// Reads properties of all objects that a list-valued property of `parent` refers to, such as
    /// the `datastore`s of a datacenter, in one call.
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

    /// Reads properties of all objects of a type in the vCenter that the user can see.
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
        // A view that cannot be destroyed ends with the session.
        drop(self.call(&view, "DestroyView", None).await);
        found
    }

    pub(crate) async fn retrieve_spec(&self, spec: Value) -> Result<Vec<ObjectContent>> {
        let mut found = Vec::new();
        // What came before is read again when the pages get smaller.
        self.retrieve_pages(spec, |first, page| {
            if first {
                found.clear();
            }
            found.extend(page);
        })
        .await?;
        Ok(found)
    }

    /// Hands over one page after the other, so that no more than one is in memory.
    ///
    /// A page that is too large begins the reading anew, with smaller ones: `read` also gets whether the page is a first one.
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
