//! Surveys a workload cluster for the programs that its storage classes and accounts need.
//!
//! A class without a driver or a token without a program is useless, so conditions report both. Each round can include a
//! survey. A survey reads one CSIDriver, and lists objects until one of them proves that a program runs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode};
use kit::guest::{Few, GuestError};
use kube::Resource;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::api_servers::{AuthenticationState, AuthenticationUse};
use super::guest::WorkloadClusterClient;
use super::manifest::Manifest;

/// The page size for lists.
const PAGE: usize = 50;
/// The maximum number of pages read from a list.
const MAX_PAGES: usize = 10;
/// The maximum size, in bytes, of a page.
const MAX_PAGE: usize = 3 << 20;
/// The maximum number of drivers read per node, and of volumes, containers and variables per Pod.
const MAX_ITEMS: usize = 64;

/// A Secret's name in a workload cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestSecret {
    pub namespace: String,
    pub name: String,
}

/// The input of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyPlan {
    /// The CSI driver that the cluster's storage classes name.
    pub driver: String,
    /// True if the cluster requests storage.
    pub is_storage_requested: bool,
    /// The Secrets with account tokens.
    pub tokens: Vec<GuestSecret>,
    /// The names of the node image's bundles that the cluster doesn't get.
    pub left_in_image: Vec<String>,
    /// The hash of the authentication configuration that API servers should use, if any.
    pub authentication: Option<String>,
}

/// A program's presence in a workload cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramPresence {
    Running,
    /// The program is installed but doesn't run on any node.
    Installed,
    /// The program isn't installed.
    Missing,
    /// The API server refused the request, with this message.
    Refused(String),
}

/// The name of the token Secret for the paravirtual storage driver. Only this driver supports the namespace's storage classes.
pub const STORAGE_DRIVER_SECRET: &str = "pvcsi-provider-creds";

/// A token, and the presence of the program that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUse {
    pub secret: GuestSecret,
    /// The presence of the program that uses the token.
    pub program: ProgramPresence,
    /// True if one of the cluster's add-ons refers to the Secret.
    pub is_required: bool,
}

/// The result of a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSurvey {
    pub driver: ProgramPresence,
    /// The tokens, in the plan's order.
    pub tokens: Vec<TokenUse>,
    /// The names of the node image's bundles that the cluster doesn't get.
    pub left_in_image: Vec<String>,
    /// The state of the authentication configuration, if the cluster should have one.
    pub authentication: Option<AuthenticationUse>,
}

impl GuestSurvey {
    /// Returns true if the storage driver or a program that uses a token is required but doesn't run, or if an API server doesn't
    /// use the desired issuers.
    pub fn lacks_requested(&self, plan: &SurveyPlan) -> bool {
        let waits_for_token = |token: &TokenUse| {
            let is_of_driver = plan.is_storage_requested && token.secret.name == STORAGE_DRIVER_SECRET;
            (token.is_required || is_of_driver) && token.program != ProgramPresence::Running
        };
        let lacks_driver = plan.is_storage_requested && self.driver != ProgramPresence::Running;
        let uses_issuers =
            self.authentication.as_ref().is_none_or(|used| used.state == AuthenticationState::InUse);
        lacks_driver || !uses_issuers || self.tokens.iter().any(waits_for_token)
    }
}

/// Returns the `tokens` that Pods in these manifests use.
pub fn required_tokens(manifests: &[Manifest], tokens: &[GuestSecret]) -> BTreeSet<GuestSecret> {
    let refers = |token: &&GuestSecret| {
        let in_namespace = |manifest: &&Manifest| {
            manifest.key.namespace.as_ref() == Some(&token.namespace) && manifest.json.contains(&token.name)
        };
        manifests.iter().filter(in_namespace).filter_map(pod_spec).any(|spec| spec.uses(&token.name))
    };
    tokens.iter().filter(refers).cloned().collect()
}

/// Returns the Pod spec of a Pod or workload, or `None` for other objects.
fn pod_spec(manifest: &Manifest) -> Option<LivePodSpec> {
    let path = match manifest.key.kind.as_str() {
        "Pod" => "/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    serde_json::from_value(manifest.value().pointer_mut(path)?.take()).ok()
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Few<T, PAGE>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LiveNode {
    spec: LiveNodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LiveNodeSpec {
    drivers: Few<Named, MAX_ITEMS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LivePod {
    metadata: LivePodMetadata,
    spec: LivePodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LivePodMetadata {
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LivePodSpec {
    volumes: Few<Volume, MAX_ITEMS>,
    containers: Few<Container, MAX_ITEMS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Volume {
    secret: Option<SecretVolume>,
    projected: Option<Projected>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretVolume {
    secret_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Few<ProjectedSource, MAX_ITEMS>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectedSource {
    secret: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    env: Few<Variable, MAX_ITEMS>,
    env_from: Few<Source, MAX_ITEMS>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variable {
    value_from: Option<ValueSource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueSource {
    secret_key_ref: Option<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    secret_ref: Option<Named>,
}

impl LiveNode {
    fn has_driver(&self, driver: &str) -> bool {
        self.spec.drivers.0.iter().any(|found| found.name == driver)
    }
}

impl LivePod {
    /// Returns true if the Pod uses this Secret and isn't being deleted.
    fn uses(&self, secret: &str) -> bool {
        self.metadata.deletion_timestamp.is_none() && self.spec.uses(secret)
    }
}

impl LivePodSpec {
    /// Returns true if a volume or an environment variable uses this Secret.
    fn uses(&self, secret: &str) -> bool {
        let is_secret = |named: Option<&Named>| named.is_some_and(|named| named.name == secret);
        let of_volume = |volume: &Volume| {
            let mut sources = volume.projected.iter().flat_map(|projected| &projected.sources.0);
            volume.secret.as_ref().is_some_and(|volume| volume.secret_name == secret)
                || sources.any(|source| is_secret(source.secret.as_ref()))
        };
        let of_container = |container: &Container| {
            let mut values = container.env.0.iter().filter_map(|variable| variable.value_from.as_ref());
            values.any(|value| is_secret(value.secret_key_ref.as_ref()))
                || container.env_from.0.iter().any(|source| is_secret(source.secret_ref.as_ref()))
        };
        self.volumes.0.iter().any(of_volume) || self.containers.0.iter().any(of_container)
    }
}

impl WorkloadClusterClient {
    /// Surveys the workload cluster. `required` contains the tokens that add-ons refer to. Returns an error only if the cluster
    /// doesn't respond.
    pub async fn survey(
        &self,
        plan: &SurveyPlan,
        required: &BTreeSet<GuestSecret>,
    ) -> Result<GuestSurvey, GuestError> {
        let driver = unless_refused(self.find_driver(&plan.driver).await)?;
        let mut tokens = Vec::with_capacity(plan.tokens.len());
        for secret in &plan.tokens {
            let program = unless_refused(self.find_user(secret).await)?;
            tokens.push(TokenUse { secret: secret.clone(), program, is_required: required.contains(secret) });
        }
        let authentication = match &plan.authentication {
            Some(hash) => Some(self.survey_authentication(hash).await?),
            None => None,
        };
        Ok(GuestSurvey { driver, tokens, left_in_image: plan.left_in_image.clone(), authentication })
    }

    async fn find_driver(&self, driver: &str) -> Result<ProgramPresence, GuestError> {
        let read = Request::new(CSIDriver::url_path(&(), None)).get(driver, &GetParams::default());
        if self.server.read_if_there::<IgnoredAny>(read, MAX_PAGE).await?.is_none() {
            return Ok(ProgramPresence::Missing);
        }
        let nodes = Request::new(CSINode::url_path(&(), None));
        let is_registered =
            self.has_any(&nodes, ListParams::default(), |node: &LiveNode| node.has_driver(driver)).await?;
        Ok(if is_registered { ProgramPresence::Running } else { ProgramPresence::Installed })
    }

    async fn find_user(&self, secret: &GuestSecret) -> Result<ProgramPresence, GuestError> {
        let pods = Request::new(Pod::url_path(&(), Some(&secret.namespace)));
        let running = ListParams::default().fields("status.phase=Running");
        let is_used = self.has_any(&pods, running, |pod: &LivePod| pod.uses(&secret.name)).await?;
        Ok(if is_used { ProgramPresence::Running } else { ProgramPresence::Missing })
    }

    /// Returns true if a list contains an object that matches `is_one`. Stops at the first match, or after [`MAX_PAGES`].
    async fn has_any<T>(
        &self,
        at: &Request,
        params: ListParams,
        is_one: impl Fn(&T) -> bool,
    ) -> Result<bool, GuestError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let mut params = params.limit(u32::try_from(PAGE).unwrap_or(u32::MAX));
        for _ in 0..MAX_PAGES {
            let page: Page<T> = self.server.read(at.list(&params), MAX_PAGE).await?;
            if page.items.0.iter().any(&is_one) {
                return Ok(true);
            }
            match page.metadata.r#continue.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

fn unless_refused(found: Result<ProgramPresence, GuestError>) -> Result<ProgramPresence, GuestError> {
    match found {
        Err(GuestError::Refused(refusal)) => Ok(ProgramPresence::Refused(refusal.to_string())),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ProgramPresence::{Installed, Missing, Running};
    use super::*;
    use crate::addons::manifest;

    fn secret(namespace: &str, name: &str) -> GuestSecret {
        GuestSecret { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_pod_uses_a_secret_by_a_volume_or_a_variable() {
        let volume = |volume: Value| json!({"spec": {"volumes": [{"name": "other"}, volume]}});
        let container = |container: Value| json!({"spec": {"containers": [{"name": "c"}, container]}});
        let mounted = volume(json!({"secret": {"secretName": "creds"}}));
        let mut leaving = mounted.clone();
        leaving["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let cases = [
            (mounted, true),
            (
                volume(
                    json!({"projected": {"sources": [{"configMap": {"name": "creds"}}, {"secret": {"name": "creds"}}]}}),
                ),
                true,
            ),
            (
                container(
                    json!({"env": [{"name": "a", "value": "creds"}, {"name": "b", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "token"}}}]}),
                ),
                true,
            ),
            (container(json!({"envFrom": [{"secretRef": {"name": "creds"}}]})), true),
            (volume(json!({"secret": {"secretName": "another"}})), false),
            (volume(json!({"configMap": {"name": "creds"}})), false),
            (container(json!({"env": [{"name": "a", "value": "creds"}]})), false),
            (json!({}), false),
            (leaving, false),
        ];
        for (pod, expected) in cases {
            let live: LivePod = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(live.uses("creds"), expected, "{pod}");
        }
    }

    #[test]
    fn a_node_has_the_drivers_that_are_registered_on_it() {
        let has = |drivers: Value| {
            let node: LiveNode = serde_json::from_value(json!({"spec": {"drivers": drivers}})).unwrap();
            node.has_driver("csi.vsphere.vmware.com")
        };
        assert!(has(json!([{"name": "nfs.csi.k8s.io"}, {"name": "csi.vsphere.vmware.com", "nodeID": "n"}])));
        assert!(!has(json!([{"name": "nfs.csi.k8s.io"}])));
        assert!(!has(json!(null)), "a node without drivers");
    }

    #[test]
    fn a_bundle_requires_the_tokens_that_it_refers_to() {
        let deployment = |namespace: &str, secret: &str| {
            let volume = json!({"name": "creds", "secret": {"secretName": secret}});
            let document = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace},
                "spec": {"template": {"spec": {"volumes": [volume]}}},
            });
            vec![manifest::read(document).unwrap()]
        };
        let tokens = [secret("csi", "creds"), secret("cloud", "creds")];
        let required =
            |manifests: &[Manifest]| required_tokens(manifests, &tokens).into_iter().collect::<Vec<_>>();
        assert_eq!(required(&deployment("csi", "creds")), [secret("csi", "creds")]);
        assert_eq!(
            required(&deployment("csi", "vsphere-config-secret")),
            [],
            "its volume has the name of the Secret"
        );
        assert_eq!(required(&deployment("default", "creds")), []);
    }

    #[test]
    fn only_a_program_that_is_asked_for_is_lacking() {
        let survey = |driver: ProgramPresence, program: ProgramPresence, is_required: bool| GuestSurvey {
            driver,
            tokens: vec![TokenUse { secret: secret("csi", "creds"), program, is_required }],
            left_in_image: Vec::new(),
            authentication: None,
        };
        // The driver runs, but its Pod with the token doesn't run yet.
        let of_driver = |program: ProgramPresence| {
            let mut survey = survey(Running, program, false);
            survey.tokens[0].secret.name = STORAGE_DRIVER_SECRET.to_owned();
            survey
        };
        for (requested, survey, expected) in [
            (false, survey(Missing, Missing, false), false),
            (true, survey(Missing, Missing, false), true),
            (true, survey(Installed, Missing, false), true),
            (true, survey(Running, Missing, false), false),
            (false, survey(Missing, Missing, true), true),
            (false, survey(Missing, Running, true), false),
            (true, of_driver(Missing), true),
            (true, of_driver(Installed), true),
            (true, of_driver(Running), false),
            (false, of_driver(Installed), false),
        ] {
            let plan = SurveyPlan { is_storage_requested: requested, ..SurveyPlan::default() };
            assert_eq!(survey.lacks_requested(&plan), expected, "{requested} {survey:?}");
        }
    }
}
