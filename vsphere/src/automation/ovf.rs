//! Deploys OVF items from a content library.

use std::time::Duration;

use bounds::Turn;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::call::Call;
use crate::retry::RetryPolicy;
use crate::style::Form;
use crate::{Client, Error, Fault, MoRef, Result, Value};

/// The two names of the request member that accepts license agreements. vCenter up to 8.0 uses the first name, and the
/// published 9.0 types use the second.
const EULA_MEMBERS: [&str; 2] = ["accept_all_EULA", "accept_all_eula"];

pub(super) const OVF_ITEMS: &str = "vcenter/ovf/library-item";

/// The parameters of an OVF deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deploy {
    /// The ID of the OVF item.
    pub item_id: String,
    /// The name of the new VM.
    pub name: String,
    /// The notes of the new VM.
    pub annotation: Option<String>,
    /// The target resource pool.
    pub pool: MoRef,
    /// The target folder.
    pub folder: MoRef,
    /// The target host, which only a cluster without DRS requires.
    pub host: Option<MoRef>,
    /// The datastore for all disks. If `None`, vCenter chooses.
    pub datastore: Option<MoRef>,
    /// The ID of the storage policy.
    pub profile: Option<String>,
    /// The disk provisioning type. If `None`, vCenter chooses.
    pub provisioning: Option<OvfProvisioning>,
    /// The mapping from the descriptor's network names to vCenter networks.
    pub networks: Vec<(String, MoRef)>,
}

/// A disk provisioning type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OvfProvisioning {
    /// Allocates space on the first write.
    Thin,
    /// Reserves the full size at creation.
    Thick,
    /// Reserves and zeroes the full size at creation.
    EagerZeroedThick,
}

impl OvfProvisioning {
    fn name(self) -> &'static str {
        match self {
            Self::Thin => "thin",
            Self::Thick => "thick",
            Self::EagerZeroedThick => "eagerZeroedThick",
        }
    }
}

#[derive(Deserialize)]
struct Deployment {
    #[serde(default)]
    succeeded: bool,
    resource_id: Option<ResourceId>,
    error: Option<DeploymentError>,
}

#[derive(Deserialize)]
struct ResourceId {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Deserialize)]
pub(super) struct DeploymentError {
    #[serde(default)]
    errors: Vec<OvfError>,
}

#[derive(Deserialize)]
struct OvfError {
    #[serde(default)]
    category: String,
    message: Option<Message>,
    error: Option<Json>,
}

/// A message from vCenter.
#[derive(Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub default_message: String,
}

impl Client {
    /// Deploys an OVF item, waits for completion, and returns the VM, which is powered off. `turn` is a slot in
    /// [`Client::deployments`].
    ///
    /// vCenter responds only after it has copied the disks, so the caller chooses the maximum time to wait
    /// (`deadline`). If the response is lost, the call isn't repeated: look up the name in the folder. If vCenter
    /// rejects the request because of an unknown member, it hasn't deployed anything, so the request is sent again with
    /// the other name of the license agreement member.
    pub async fn deploy_ovf(&self, turn: &Turn, deploy: &Deploy, deadline: Duration) -> Result<MoRef> {
        let [known, other] = EULA_MEMBERS;
        match self.deploy_with(turn, deploy, deadline, known).await {
            Err(rejected) if rejects_input(&rejected) => {
                let again = self.deploy_with(turn, deploy, deadline, other).await;
                // If vCenter rejects both names, the license agreement member is not the cause.
                again.map_err(|error| if rejects_input(&error) { rejected } else { error })
            }
            answered => answered,
        }
    }

    async fn deploy_with(
        &self,
        turn: &Turn,
        deploy: &Deploy,
        deadline: Duration,
        eula_member: &'static str,
    ) -> Result<MoRef> {
        let policy = RetryPolicy { timeout: deadline, repeatable: false };
        let deployment: Deployment = self
            .long_automation(turn, "deploy", policy, |form| {
                let path = form.action(&form.one(OVF_ITEMS, &deploy.item_id), "deploy");
                Call::post(path, body(deploy, form, eula_member))
            })
            .await
            .map_err(|error: Error| error.on(&deploy.name))?;
        match deployment.resource_id {
            Some(resource) if deployment.succeeded => Ok(MoRef::new(&resource.kind, resource.id)),
            _ => Err(Error::from_fault("deploy", why(deployment.error)).on(&deploy.name)),
        }
    }
}

/// Returns true if vCenter rejected the request because it contains an unknown member.
fn rejects_input(error: &Error) -> bool {
    error.fault().is_some_and(|fault| fault.type_name == "UnexpectedInput")
}

fn body(deploy: &Deploy, form: Form, eula_member: &str) -> Json {
    let mut spec = Map::new();
    spec.insert("name".into(), json!(deploy.name));
    if let Some(annotation) = &deploy.annotation {
        spec.insert("annotation".into(), json!(annotation));
    }
    spec.insert(eula_member.into(), json!(true));
    if !deploy.networks.is_empty() {
        let mappings = match form {
            Form::Api => {
                deploy.networks.iter().map(|(name, moref)| (name.clone(), json!(moref.id()))).collect()
            }
            Form::Rest => deploy
                .networks
                .iter()
                .map(|(name, moref)| json!({ "key": name, "value": moref.id() }))
                .collect::<Json>(),
        };
        spec.insert("network_mappings".into(), mappings);
    }
    if let Some(provisioning) = deploy.provisioning {
        spec.insert("storage_provisioning".into(), json!(provisioning.name()));
    }
    if let Some(profile) = &deploy.profile {
        spec.insert("storage_profile_id".into(), json!(profile));
    }
    if let Some(datastore) = &deploy.datastore {
        spec.insert("default_datastore_id".into(), json!(datastore.id()));
    }
    let mut target = Map::new();
    target.insert("resource_pool_id".into(), json!(deploy.pool.id()));
    if let Some(host) = &deploy.host {
        target.insert("host_id".into(), json!(host.id()));
    }
    target.insert("folder_id".into(), json!(deploy.folder.id()));
    json!({ "deployment_spec": spec, "target": target })
}

pub(super) fn why(error: Option<DeploymentError>) -> Fault {
    let first = error.and_then(|error| error.errors.into_iter().next());
    let Some(OvfError { category, message, error }) = first else {
        return Fault { type_name: "OvfDeployFault".into(), message: String::new(), detail: Value::Null };
    };
    let error = error.unwrap_or_default();
    let text = message
        .map(|message| message.default_message)
        .or_else(|| error["messages"][0]["default_message"].as_str().map(str::to_owned))
        .unwrap_or_default();
    // vCenter reports a duplicate name only in the message text or the error class.
    let class = error["@class"].as_str().unwrap_or_default();
    let type_name = if class.ends_with("already_exists") || text.contains("already exists") {
        "DuplicateName".to_owned()
    } else if category.is_empty() {
        "OvfDeployFault".to_owned()
    } else {
        format!("OvfDeployFault/{category}")
    };
    Fault { type_name, message: text, detail: Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deploy() -> Deploy {
        Deploy {
            item_id: "item-1".into(),
            name: "golden".into(),
            annotation: None,
            pool: MoRef::pool("resgroup-8"),
            folder: MoRef::folder("group-v3"),
            host: None,
            datastore: Some(MoRef::datastore("datastore-15")),
            profile: None,
            provisioning: Some(OvfProvisioning::Thin),
            networks: vec![("VM Network".into(), MoRef::new("Network", "network-7"))],
        }
    }

    #[test]
    fn both_forms_of_a_deployment() {
        insta::assert_json_snapshot!("deploy_api", body(&deploy(), Form::Api, EULA_MEMBERS[0]));
        insta::assert_json_snapshot!("deploy_rest", body(&deploy(), Form::Rest, EULA_MEMBERS[0]));
    }

    #[test]
    fn a_failed_deployment_says_why() {
        let error = serde_json::from_value(json!({ "errors": [
            { "category": "SERVER", "error": { "@class": "com.vmware.vapi.std.errors.already_exists",
              "messages": [{ "default_message": "The name 'golden' already exists." }] } }
        ]}));
        let fault = why(error.unwrap());
        assert_eq!(
            (fault.type_name.as_str(), fault.message.as_str()),
            ("DuplicateName", "The name 'golden' already exists.")
        );
        assert_eq!(why(None).type_name, "OvfDeployFault");
    }
}
