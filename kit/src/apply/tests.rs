use proptest::prelude::*;

use super::*;

fn merged(old: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = old.as_object().cloned().unwrap_or_default();
    for (name, change) in patch {
        if change.is_null() {
            target.remove(name);
        } else {
            let old = target.get(name).cloned().unwrap_or(Value::Null);
            target.insert(name.clone(), merged(&old, change));
        }
    }
    Value::Object(target)
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..4_i64).prop_map(Value::from)];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-d]", value, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn the_difference_leads_from_old_to_new(old in document(), new in document()) {
        let patch = compute_patch(&old, &new).unwrap_or_else(|| json!({}));
        prop_assert_eq!(merged(&old, &patch), new);
    }

    #[test]
    fn a_document_bears_itself(document in document()) {
        prop_assert!(contains(&document, &document));
    }
}

#[test]
fn drift_is_seen_and_others_fields_are_not() {
    let wanted = json!({
        "apiVersion": "v1",
        "metadata": { "name": "a", "ownerReferences": [{ "uid": "1" }] },
        "spec": { "list": [1, 2] },
    });
    let live = json!({
        "metadata": { "name": "a", "uid": "9", "ownerReferences": [{ "uid": "0" }, { "uid": "1" }] },
        "spec": { "list": [1, 2], "others": true },
    });
    assert!(matches(&live, wanted.clone()));
    for drift in [json!([1]), json!([1, 2, 3]), json!([2, 1])] {
        let mut drifted = live.clone();
        drifted["spec"]["list"] = drift;
        assert!(!matches(&drifted, wanted.clone()));
    }
    let mut orphaned = live.clone();
    orphaned["metadata"]["ownerReferences"] = json!([{ "uid": "0" }]);
    assert!(!matches(&orphaned, wanted.clone()));
}

#[test]
fn a_reference_to_another_kind_or_version_is_drift() {
    let object = |version: &str, kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": { "ref": { "apiVersion": version, "kind": kind, "name": "a" } },
        })
    };
    let mut live = object("g/v1", "Cluster");
    assert!(matches(&live, object("g/v1", "Cluster")));
    assert!(!matches(&live, object("g/v1", "ClusterClass")));
    assert!(!matches(&live, object("g/v2", "Cluster")));
    live.as_object_mut().unwrap().retain(|name, _| name == "spec");
    assert!(matches(&live, object("g/v1", "Cluster")), "a type without its own kind");
}

mod sent {
    use std::collections::BTreeMap;

    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use parking_lot::Mutex;
    use support::api_server::{Request, refusal, server};

    use super::*;

    impl<K> ApplyResult<K> {
        fn is_sent(&self) -> bool {
            matches!(self, Self::Sent(_))
        }
    }

    fn intent(data: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".into());
        object.metadata.namespace = Some("n".into());
        object.data = Some(BTreeMap::from([("k".into(), data.into())]));
        object
    }

    fn stored(data: &str, version: u64) -> Arc<ConfigMap> {
        let mut object = intent(data);
        object.metadata.resource_version = Some(version.to_string());
        object.metadata.uid = Some("u".into());
        object.metadata.finalizers = Some(vec!["x/y".into()]);
        Arc::new(object)
    }

    /// Returns the written object with resourceVersion 9, as the response to a write.
    fn echo(request: &Request) -> (u16, Value) {
        let mut object = request.body.clone();
        object["metadata"]["name"] = json!("a");
        object["metadata"]["namespace"] = json!("n");
        object["metadata"]["resourceVersion"] = json!("9");
        (200, object)
    }

    fn api(
        reply: impl Fn(&Request) -> (u16, Value) + Send + Sync + 'static,
    ) -> (Api, Arc<Mutex<Vec<Request>>>) {
        let (client, requests) = server(reply);
        (Api::new(&Runtime::detached(client), "test/kind"), requests)
    }

    #[tokio::test]
    async fn an_intent_is_sent_once_and_again_only_when_it_or_the_object_changes() {
        let (api, requests) = api(echo);
        assert!(api.apply(&intent("1"), None).await.unwrap().is_sent());
        assert!(!api.apply(&intent("1"), Some(&stored("1", 9))).await.unwrap().is_sent());
        assert!(
            !api.apply(&intent("1"), Some(&stored("1", 12))).await.unwrap().is_sent(),
            "others changed it"
        );
        assert!(api.apply(&intent("1"), Some(&stored("drifted", 13))).await.unwrap().is_sent());
        assert!(api.apply(&intent("2"), Some(&stored("1", 14))).await.unwrap().is_sent());
        let requests = requests.lock();
        assert_eq!(requests.len(), 3);
        assert_eq!(requests[0].line(), "PATCH /api/v1/namespaces/n/configmaps/a");
        assert!(requests[0].path.contains("fieldManager=test%2Fkind"), "{}", requests[0].path);
        assert!(requests[0].path.contains("force=true"));
        assert_eq!(requests[0].body["kind"], "ConfigMap");
    }

    #[tokio::test]
    async fn what_is_not_there_is_created_and_no_namesake_is_taken_over() {
        let (api, requests) = api(|request| match request.method.as_str() {
            "POST" if request.body["data"]["k"] == "taken" => refusal(409, "AlreadyExists"),
            _ => echo(request),
        });
        let taken = api.create_or_apply(&intent("taken"), None).await.unwrap_err();
        assert!(is_already_exists(&taken));
        assert!(api.create_or_apply(&intent("1"), None).await.unwrap().is_sent());
        assert!(!api.create_or_apply(&intent("1"), Some(&stored("1", 9))).await.unwrap().is_sent());
        assert!(api.create_or_apply(&intent("2"), Some(&stored("1", 10))).await.unwrap().is_sent());
        let methods: Vec<_> = requests.lock().iter().map(|request| request.method.clone()).collect();
        assert_eq!(methods, ["POST", "POST", "PATCH"]);
    }

    #[tokio::test]
    async fn only_the_very_object_that_was_seen_is_live() {
        let (api, requests) = api(|request| match request.path.as_str() {
            "/api/v1/namespaces/n/configmaps/a?" | "/api/v1/namespaces/n/configmaps/a" => (
                200,
                json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "20" } }),
            ),
            _ => refusal(404, "NotFound"),
        });
        let live = api.live(&*stored("1", 9)).await.unwrap().unwrap();
        assert_eq!(live.resource_version().as_deref(), Some("20"));
        let mut namesake = (*stored("1", 9)).clone();
        namesake.metadata.uid = Some("another".into());
        assert!(api.live(&namesake).await.unwrap().is_none());
        namesake.metadata.name = Some("gone".into());
        assert!(api.live(&namesake).await.unwrap().is_none());
        assert_eq!(requests.lock()[0].method, "GET");
    }

    #[tokio::test]
    async fn a_restarted_process_writes_nothing_that_is_so() {
        let (api, requests) = api(echo);
        assert!(!api.apply(&intent("1"), Some(&stored("1", 9))).await.unwrap().is_sent());
        assert!(api.apply(&intent("1"), Some(&stored("drifted", 10))).await.unwrap().is_sent());
        assert_eq!(requests.lock().len(), 1);
    }

    #[tokio::test]
    async fn a_status_is_sent_as_its_difference_or_not_at_all() {
        let (api, requests) = api(|_| (200, json!({ "metadata": { "name": "a", "namespace": "n" } })));
        let mut seen = Deployment::default();
        seen.metadata.name = Some("a".into());
        seen.metadata.namespace = Some("n".into());
        seen.metadata.uid = Some("u".into());
        let mut status =
            k8s_openapi::api::apps::v1::DeploymentStatus { replicas: Some(1), ..Default::default() };
        seen.status = Some(status.clone());
        let seen = Deploy(seen);
        assert!(!api.patch_status(&seen, &status).await.unwrap());
        status.ready_replicas = Some(1);
        assert!(api.patch_status(&seen, &status).await.unwrap());
        let requests = requests.lock();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].line(), "PATCH /apis/apps/v1/namespaces/n/deployments/a/status");
        assert_eq!(requests[0].body, json!({ "metadata": { "uid": "u" }, "status": { "readyReplicas": 1 } }));
    }

    #[tokio::test]
    async fn a_patch_is_of_the_object_that_was_seen() {
        let (api, requests) = api(echo);
        api.add_finalizer(&*stored("1", 5), "x/y").await.unwrap();
        api.add_finalizer(&*stored("1", 5), "x/z").await.unwrap();
        api.remove_finalizer(&*stored("1", 5), "x/y").await.unwrap();
        let requests = requests.lock();
        let metadata =
            |finalizers: Value| json!({ "resourceVersion": "5", "uid": "u", "finalizers": finalizers });
        assert_eq!(requests.len(), 2, "a finalizer that is there is not sent again");
        assert_eq!(requests[0].body["metadata"], metadata(json!(["x/y", "x/z"])));
        assert_eq!(requests[1].body["metadata"], metadata(json!([])));
    }

    #[tokio::test]
    async fn a_deletion_is_of_the_object_that_was_seen_and_may_come_late() {
        let (api, requests) = api(|_| refusal(404, "NotFound"));
        assert!(!api.delete(&*stored("1", 5)).await.unwrap());
        assert_eq!(requests.lock()[0].body["preconditions"]["uid"], "u");
    }

    #[tokio::test]
    async fn a_conflict_is_an_error_and_no_write() {
        let (api, _) = api(|_| refusal(409, "Conflict"));
        let error = api.patch(&*stored("1", 5), json!({})).await.unwrap_err();
        assert!(is_conflict(&error));
        assert!(api.expectations.check_fresh(&*stored("1", 1)).is_ok());
    }

    /// A kind that has a status, like Layercake's own kinds.
    #[derive(Clone, Debug, serde::Deserialize)]
    struct Deploy(Deployment);

    impl Resource for Deploy {
        type DynamicType = ();
        type Scope = kube::core::NamespaceResourceScope;
        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            Deployment::kind(&())
        }
        fn group((): &()) -> std::borrow::Cow<'_, str> {
            Deployment::group(&())
        }
        fn version((): &()) -> std::borrow::Cow<'_, str> {
            Deployment::version(&())
        }
        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            Deployment::plural(&())
        }
        fn meta(&self) -> &kube::api::ObjectMeta {
            self.0.meta()
        }
        fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
            self.0.meta_mut()
        }
    }

    impl HasStatus for Deploy {
        type Status = k8s_openapi::api::apps::v1::DeploymentStatus;
        fn status(&self) -> Option<&Self::Status> {
            self.0.status.as_ref()
        }
        fn status_mut(&mut self) -> &mut Option<Self::Status> {
            &mut self.0.status
        }
    }
}
