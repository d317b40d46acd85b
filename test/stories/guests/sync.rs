//! A guest gets the storage classes of its namespace, and the namespace's editors become cluster administrators.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use layercake::site::manifests::storage_quota;
use serde_json::{Value, json};

use crate::guests::limits::{create_driver, register_driver, use_storage_token};
use crate::harness::objects::{SMALL, one_node, role_binding, storage_class};
use crate::harness::story::{CLUSTER, SOON, Story, assert_contains, condition, merge, story};

const SETTINGS: &str =
    "  settings: {storage: {classes: [synced-gold, synced-silver], defaultClass: synced-silver}}\n";
const RBAC: &str = "rbac.authorization.k8s.io";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const PREFIX: &str = "vmware-system-auth-sync-wcp:guest-sync";

#[test]
fn a_guest_has_the_classes_and_administrators_of_its_namespace() {
    story("guest-sync", |story| async move {
        let cluster = one_node("synced", "v1.33.1---vmware.1-fips-vkr.2", SMALL);
        story.apply(&(cluster + SETTINGS)).await;
        let devs = json!([{"kind": "Group", "name": "sso:devs@vsphere.local", "apiGroup": RBAC}, {"kind": "ServiceAccount", "name": "robot"}]);
        bind(&story, "devs", "edit", &devs).await;
        bind(
            &story,
            "watchers",
            "view",
            &json!([{"kind": "User", "name": "sso:eve@vsphere.local", "apiGroup": RBAC}]),
        )
        .await;
        // The spec names classes, but their driver isn't installed.
        story
            .wait_for_ready("synced", &["StorageDriverNotFound", "no CSI driver csi.vsphere.vmware.com"])
            .await;
        let cluster = story.get("TanzuKubernetesCluster", "synced").await.unwrap();
        assert_contains(
            &condition(&cluster, "RoleBindingSynced").unwrap()["message"],
            &["1 group of namespace guest-sync"],
        );
        let guest = story.guest_client("synced").await;
        create_driver(&guest).await;
        register_driver(&guest).await;
        use_storage_token(&story, &guest).await;
        wait_until_synced(&story).await;
        its_classes_are_those_that_were_asked_for(&guest).await;
        administrators_come_and_go_with_their_bindings(&story, &guest).await;
        a_class_that_is_missing_is_named_and_comes_later(&story, &guest).await;
        a_class_follows_the_management_clusters(&story, &guest).await;
        what_the_guests_user_changes_is_corrected_or_named(&story, &guest).await;
        classes_that_are_asked_for_no_more_go(&story, &guest).await;
        story.delete("TanzuKubernetesCluster", "synced", CLUSTER).await;
        for class in ["synced-platinum", "synced-lead"] {
            story.cluster_api("StorageClass").delete(class, &DeleteParams::default()).await.unwrap();
        }
    });
}

async fn bind(story: &Story, name: &str, role: &str, subjects: &Value) {
    story.apply_object(&role_binding(&story.namespace, name, role, subjects)).await;
}

/// Creates a storage class with these fields, and assigns it to the namespace.
async fn assign(story: &Story, class: &str, fields: Value) {
    let mut object = storage_class(class, &Value::Null);
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    story.apply_object(&object).await;
    story.apply_object(&storage_quota(class, &story.namespace, [class])).await;
}

async fn ask_for(story: &Story, storage: Value) {
    story
        .patch("TanzuKubernetesCluster", "synced", json!({"spec": {"settings": {"storage": storage}}}))
        .await;
}

async fn classes(guest: &Client) -> BTreeMap<String, StorageClass> {
    let list = Api::<StorageClass>::all(guest.clone()).list(&ListParams::default()).await.unwrap();
    list.items.into_iter().map(|class| (class.name_any(), class)).collect()
}

/// Returns the synced administrators in the guest: binding and subject names.
async fn administrators(guest: &Client) -> Vec<(String, String)> {
    let all = Api::<ClusterRoleBinding>::all(guest.clone()).list(&ListParams::default()).await.unwrap();
    let ours =
        all.items.into_iter().filter(|binding| binding.name_any().starts_with("vmware-system-auth-sync"));
    ours.map(|binding| {
        assert_eq!(binding.role_ref.name, "cluster-admin");
        (binding.name_any(), binding.subjects.unwrap()[0].name.clone())
    })
    .collect()
}

async fn wait_for_complaint(story: &Story, words: &[&str]) {
    story
        .wait_for(&format!("StorageClassSynced names {words:?}"), SOON, || async {
            let cluster = story.get("TanzuKubernetesCluster", "synced").await?;
            let synced = condition(&cluster, "StorageClassSynced")?.clone();
            let message = synced["message"].as_str().unwrap_or_default().to_owned();
            let failed = synced["status"] == "False" && synced["reason"] == "StorageClassSyncFailed";
            let ready = condition(&cluster, "Ready")?;
            (failed
                && words.iter().all(|word| message.contains(word))
                && ready["message"] == synced["message"])
                .then_some(())
        })
        .await;
}

async fn wait_until_synced(story: &Story) {
    for type_ in ["StorageClassSynced", "Ready"] {
        story.wait_for_condition("TanzuKubernetesCluster", "synced", type_, "True").await;
    }
}

async fn its_classes_are_those_that_were_asked_for(guest: &Client) {
    let classes = classes(guest).await;
    let names: Vec<_> = classes.keys().map(String::as_str).collect();
    let editions = ["synced-gold", "synced-gold-latebinding", "synced-silver", "synced-silver-latebinding"];
    assert_eq!(names, editions);
    for (name, class) in &classes {
        let of = name.trim_end_matches("-latebinding");
        let mode = if of == name { "Immediate" } else { "WaitForFirstConsumer" };
        assert_eq!(class.provisioner, "csi.vsphere.vmware.com");
        assert_eq!(class.parameters.as_ref().unwrap()["svStorageClass"], of);
        assert_eq!(class.reclaim_policy.as_deref(), Some("Delete"));
        assert_eq!(
            (class.volume_binding_mode.as_deref(), class.allow_volume_expansion),
            (Some(mode), Some(true))
        );
        let default = class.annotations().get(IS_DEFAULT).map(String::as_str);
        assert_eq!(default, (name == "synced-silver").then_some("true"), "{name}");
    }
}

async fn administrators_come_and_go_with_their_bindings(story: &Story, guest: &Client) {
    let devs = (format!("{PREFIX}:group:vsphere.local:devs"), "sso:devs@vsphere.local".to_owned());
    assert_eq!(administrators(guest).await, [devs]);
    bind(story, "owner", "admin", &json!([{"kind": "User", "name": "alice", "apiGroup": RBAC}])).await;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(story.client(), &story.namespace);
    bindings.delete("devs", &DeleteParams::default()).await.unwrap();
    let alice = [(format!("{PREFIX}:user::alice"), "alice".to_owned())];
    // The message counts the remaining bindings.
    let words = ["for 1 user of namespace guest-sync"];
    story.wait_for_message(("TanzuKubernetesCluster", "synced"), "RoleBindingSynced", SOON, &words).await;
    story
        .wait_until("alice administers the guest, and the group does no more", SOON, async || {
            administrators(guest).await == alice
        })
        .await;
}

async fn a_class_that_is_missing_is_named_and_comes_later(story: &Story, guest: &Client) {
    let asked = ["synced-gold", "synced-silver", "synced-platinum"];
    ask_for(story, json!({"classes": asked})).await;
    let key = "synced-platinum.storageclass.storage.k8s.io/requests.storage";
    wait_for_complaint(story, &["StorageClass synced-platinum", "namespace guest-sync", key, "synced-gold"])
        .await;
    let kept = json!({"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": false});
    assign(story, "synced-platinum", kept).await;
    wait_until_synced(story).await;
    let platinum = &classes(guest).await["synced-platinum"];
    assert_eq!(platinum.reclaim_policy.as_deref(), Some("Retain"));
    assert_eq!(platinum.volume_binding_mode.as_deref(), Some("WaitForFirstConsumer"));
    assert_eq!(platinum.allow_volume_expansion, Some(false));
}

/// These fields are immutable, so the administrator recreates the class, and gcm recreates the guest's class.
async fn a_class_follows_the_management_clusters(story: &Story, guest: &Client) {
    story.cluster_api("StorageClass").delete("synced-platinum", &DeleteParams::default()).await.unwrap();
    assign(story, "synced-platinum", json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}))
        .await;
    story
        .wait_for("the guest's class is as the new one", SOON, || async {
            let classes = classes(guest).await;
            let platinum = classes.get("synced-platinum")?;
            let same = platinum.reclaim_policy.as_deref() == Some("Delete")
                && platinum.volume_binding_mode.as_deref() == Some("Immediate");
            same.then_some(())
        })
        .await;
    wait_until_synced(story).await;
}

async fn what_the_guests_user_changes_is_corrected_or_named(story: &Story, guest: &Client) {
    let api: Api<StorageClass> = Api::all(guest.clone());
    api.delete("synced-gold", &DeleteParams::default()).await.unwrap();
    let not_default = json!({"metadata": {"annotations": {IS_DEFAULT: "false"}}});
    merge(&api, "synced-silver", not_default).await.unwrap();
    story
        .wait_for("what was changed is as it was", SOON, || async {
            let classes = classes(guest).await;
            let is_default = classes.get("synced-silver")?.annotations().get(IS_DEFAULT)? == "true";
            (is_default && classes.contains_key("synced-gold")).then_some(())
        })
        .await;
    let own = json!({"metadata": {"name": "synced-lead"}, "provisioner": "example.com/own"});
    api.create(&PostParams::default(), &serde_json::from_value(own).unwrap()).await.unwrap();
    assign(story, "synced-lead", json!({})).await;
    ask_for(story, json!({"classes": ["synced-gold", "synced-silver", "synced-lead"]})).await;
    wait_for_complaint(story, &["StorageClass synced-lead", "the object exists", "Delete the object"]).await;
    assert_eq!(classes(guest).await["synced-lead"].provisioner, "example.com/own");
    api.delete("synced-lead", &DeleteParams::default()).await.unwrap();
    wait_until_synced(story).await;
    assert_eq!(classes(guest).await["synced-lead"].provisioner, "csi.vsphere.vmware.com");
}

async fn classes_that_are_asked_for_no_more_go(story: &Story, guest: &Client) {
    ask_for(story, json!({"classes": ["synced-gold"], "defaultClass": null})).await;
    story
        .wait_for("the guest has one class in two editions", SOON, || async {
            let names: Vec<_> = classes(guest).await.into_keys().collect();
            (names == ["synced-gold", "synced-gold-latebinding"]).then_some(())
        })
        .await;
    ask_for(story, json!(null)).await;
    story
        .wait_for("the guest has all classes of the namespace", SOON, || async {
            let classes = classes(guest).await;
            let all =
                ["gc-storage-profile", "synced-gold", "synced-silver", "synced-platinum", "synced-lead"];
            (classes.len() == 2 * all.len() && all.iter().all(|name| classes.contains_key(*name)))
                .then_some(())
        })
        .await;
    story.api("ResourceQuota").delete("synced-platinum", &DeleteParams::default()).await.unwrap();
    story
        .wait_until("the class goes with its quota", SOON, async || {
            !classes(guest).await.contains_key("synced-platinum")
        })
        .await;
}
