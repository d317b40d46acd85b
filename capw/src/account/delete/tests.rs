use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::Runtime;
use kit::apply::{Api, build_controller_reference};
use kit::events::Events;
use kube::api::ObjectMeta;

use crate::fixtures::{no_caches, recording_client};

use super::*;

fn account() -> ProviderServiceAccount {
    let metadata = ObjectMeta {
        name: Some("a".into()),
        namespace: Some("ben-test".into()),
        uid: Some("uid-of-a".into()),
        finalizers: Some(vec![finalizer::PROVIDER_SERVICE_ACCOUNT.into()]),
        deletion_timestamp: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
        ..ObjectMeta::default()
    };
    ProviderServiceAccount { metadata, ..ProviderServiceAccount::default() }
}

fn context() -> (Context, Arc<Mutex<Vec<String>>>) {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let started = Runtime::detached(recording_client(&sent));
    let context = Context {
        caches: Arc::new(no_caches()),
        api: Api::new(&started, "test"),
        events: Events::new(&started, "test"),
    };
    (context, sent)
}

#[tokio::test]
async fn only_what_the_account_controls_is_deleted_and_only_as_it_was_read() {
    let account = account();
    let mut other = account.clone();
    other.metadata.uid = Some("former".into());
    for (owner, deletions) in [(Some(&account), 1), (Some(&other), 0), (None, 0)] {
        let (context, sent) = context();
        let mut secret = Secret::default();
        secret.metadata.name = Some("a-secret".into());
        secret.metadata.namespace = Some("ben-test".into());
        secret.metadata.uid = Some("uid-of-secret".into());
        secret.metadata.owner_references = owner.map(|owner| vec![build_controller_reference(owner)]);
        delete(&account, Some(secret), &context).await.unwrap();
        let sent = sent.lock().unwrap().clone();
        assert_eq!(sent.len(), deletions, "{sent:?}");
        assert!(sent.iter().all(|line| line.starts_with("DELETE") && line.contains("uid-of-secret")));
    }
}

#[tokio::test]
async fn an_account_whose_cluster_is_gone_goes_without_its_guest() {
    let (context, sent) = context();
    carry_out(&account(), None, &context).await.unwrap();
    let sent = sent.lock().unwrap().clone();
    assert!(sent.iter().all(|line| !line.contains("kubeconfig")), "{sent:?}");
    let last = sent.last().unwrap();
    assert!(last.starts_with("PATCH") && last.contains(r#""finalizers":[]"#), "{last}");
}
