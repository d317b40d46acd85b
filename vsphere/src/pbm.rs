//! Storage policies (SPBM) and the datastores that are compatible with them.
//!
//! SPBM is a separate service that shares the VIM API's session. Results rarely change, so callers cache them instead
//! of querying the service for each VM.

use std::collections::HashSet;

use crate::{Client, Error, Kind, MoRef, Object, Result, Value};

/// A storage policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePolicy {
    /// The policy's UUID.
    pub id: String,
    pub name: String,
    /// True if the policy requires encryption by an I/O filter.
    pub encrypts: bool,
}

impl Client {
    /// Returns all storage policies. Makes up to three calls.
    pub async fn list_storage_policies(&self) -> Result<Vec<StoragePolicy>> {
        let manager = self.storage_service("profileManager").await?;
        let storage = Object::new("PbmProfileResourceType").with("resourceType", "STORAGE");
        let args = Object::new("PbmQueryProfileRequestType")
            .with("resourceType", storage)
            .with("profileCategory", "REQUIREMENT");
        let ids = self.call(&manager, "PbmQueryProfile", Some(args)).await?.into_items();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Object> = ids.iter().filter_map(|id| Some(profile_id(unique_id(id)?))).collect();
        let args = Object::new("PbmRetrieveContentRequestType").with("profileIds", ids);
        let found = self.call(&manager, "PbmRetrieveContent", Some(args)).await?;
        Ok(found.items().iter().filter_map(read).collect())
    }

    /// Returns all datastores that are compatible with a storage policy. `policy` is the policy's ID. Makes two calls.
    pub async fn list_compatible_datastores(&self, policy: &str) -> Result<HashSet<MoRef>> {
        let solver = self.storage_service("placementSolver").await?;
        let requirement =
            Object::new("PbmPlacementCapabilityProfileRequirement").with("profileId", profile_id(policy));
        let args = Object::new("PbmCheckRequirementsRequestType")
            .with("placementSubjectRequirement", vec![requirement]);
        let found = self.call(&solver, "PbmCheckRequirements", Some(args)).await;
        let found = found.map_err(|error| error.on(format!("storage policy {policy}")))?;
        Ok(found.items().iter().filter_map(parse_compatible).collect())
    }

    /// Returns the reference to a manager object, such as `profileManager`, from the service content.
    async fn storage_service(&self, name: &'static str) -> Result<MoRef> {
        const METHOD: &str = "PbmRetrieveServiceContent";
        let instance = MoRef::new("PbmServiceInstance", "ServiceInstance");
        let content = self.call(&instance, METHOD, None).await?;
        content.get(name).as_moref().cloned().ok_or_else(|| {
            let what = format!("the server has no {name} for storage policies");
            Error::new(METHOD, Kind::Unsupported { what })
        })
    }
}

fn profile_id(id: &str) -> Object {
    Object::new("PbmProfileId").with("uniqueId", id)
}

fn unique_id(id: &Value) -> Option<&str> {
    id.get("uniqueId").as_str()
}

/// The capability namespace of vCenter's own encryption I/O filter.
const ENCRYPTION: &str = "vmwarevmcrypt";
/// The capability ID in the sample encryption policy, which doesn't name an I/O filter.
const SAMPLE_ENCRYPTION: &str = "ad5a249d-cbc2-43af-9366-694d7664fa52";

fn read(profile: &Value) -> Option<StoragePolicy> {
    let name = profile.get("name").as_str().filter(|name| !name.is_empty())?;
    let rules = profile.get("constraints").get("subProfiles").items();
    let mut capabilities = rules.iter().flat_map(|rule| rule.get("capability").items());
    let encrypts = capabilities.any(|capability| {
        let id = |name: &str| capability.get("id").get(name).as_str().unwrap_or_default();
        id("namespace").eq_ignore_ascii_case(ENCRYPTION) || id("id") == SAMPLE_ENCRYPTION
    });
    Some(StoragePolicy {
        id: unique_id(profile.get("profileId"))?.to_owned(),
        name: name.to_owned(),
        encrypts,
    })
}

fn parse_compatible(result: &Value) -> Option<MoRef> {
    let hub = result.get("hub");
    let fits = result.get("error").items().is_empty() && hub.get("hubType").as_str() == Some("Datastore");
    hub.get("hubId").as_str().filter(|_| fits).map(MoRef::datastore)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datastores_without_a_complaint_are_compatible() {
        let hub = |kind: &str| Object::new("PbmPlacementHub").with("hubType", kind).with("hubId", "ds-1");
        let result = |kind| Object::new("PbmPlacementCompatibilityResult").with("hub", hub(kind));
        assert_eq!(parse_compatible(&result("Datastore").into()), Some(MoRef::datastore("ds-1")));
        assert_eq!(parse_compatible(&result("StoragePod").into()), None);
        let complaint = Object::new("LocalizedMethodFault").with("localizedMessage", "no capability");
        assert_eq!(parse_compatible(&result("Datastore").with("error", vec![complaint]).into()), None);
    }
}
