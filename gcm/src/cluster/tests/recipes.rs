//! Tests that nodes are replaced only because of changes that users request, not because of another gcm version.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::find;
use api::gcm::TanzuKubernetesCluster;
use api::gcm::parts::{Proxy, phase};
use api::names::annotation;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{document, pools};
use crate::addons::report::AddonState;
use crate::cluster::facts::Facts;
use crate::cluster::fixtures::{ClusterFixture, from, nothing, plan, stored};
use crate::cluster::invalid::Invalid;
use crate::cluster::plan::Plan;
use crate::testing::{changed, sound};

/// Returns the values whose change replaces machines: first for the control plane, then for each pool.
fn replaces(plan: &Plan) -> Vec<Value> {
    let control_plane = &plan.control_plane.spec;
    let mut all = vec![json!([
        control_plane.version,
        control_plane.machine_template.spec.infrastructure_ref.name,
        control_plane.kubeadm_config_spec,
    ])];
    all.extend(plan.deployments.iter().map(|deployment| {
        let spec = &deployment.spec.template.spec;
        json!([spec.version, spec.infrastructure_ref.name, spec.bootstrap, spec.failure_domain])
    }));
    all
}

fn marks(plan: &Plan) -> Vec<String> {
    let mark = |annotations: &BTreeMap<String, String>| annotations[annotation::MACHINE_RECIPE].clone();
    let pools = plan.deployments.iter().map(|deployment| mark(deployment.annotations()));
    std::iter::once(mark(plan.control_plane.annotations())).chain(pools).collect()
}

/// Replaces the mark in an object's annotations by another gcm version's mark for the same recipe.
fn mark_other_texts(annotations: &mut BTreeMap<String, String>) {
    let mark = annotations.get_mut(annotation::MACHINE_RECIPE).unwrap();
    *mark = format!("{}.0123456789abcdef", mark.split_once('.').unwrap().0);
}

/// Returns the cluster's facts as if another gcm version had created it: with other commands, template names and digests.
fn of_another_version(fixture: &ClusterFixture) -> Facts {
    let mut facts = fixture.facts();
    let command = "echo as another version has it".to_owned();
    let renamed = |name: &str| format!("{name}-x");
    let kcp = Arc::make_mut(facts.control_plane.as_mut().unwrap());
    let config = kcp.spec.kubeadm_config_spec.as_mut().unwrap();
    config.pre_kubeadm_commands.get_or_insert_default().push(command.clone());
    let template = &mut kcp.spec.machine_template.spec.infrastructure_ref.name;
    *template = renamed(template);
    mark_other_texts(kcp.annotations_mut());
    for template in &mut facts.machine_templates {
        let name = renamed(&template.name_any());
        Arc::make_mut(template).metadata.name = Some(name);
    }
    for template in &mut facts.config_templates {
        let template = Arc::make_mut(template);
        template.metadata.name = Some(renamed(&template.name_any()));
        let config = template.spec.template.spec.as_mut().unwrap();
        config.pre_kubeadm_commands.get_or_insert_default().push(command.clone());
    }
    for deployment in &mut facts.deployments {
        let deployment = Arc::make_mut(deployment);
        mark_other_texts(deployment.annotations_mut());
        let spec = &mut deployment.spec.template.spec;
        spec.infrastructure_ref.name = renamed(&spec.infrastructure_ref.name);
        let config = spec.bootstrap.config_ref.as_mut().unwrap();
        config.name = renamed(&config.name);
    }
    facts
}

/// Returns true for each group whose machines the plan replaces: first the control plane, then each pool.
pub(super) fn rolls(tkc: &TanzuKubernetesCluster, facts: &Facts) -> Vec<bool> {
    let there = Plan {
        control_plane: (**facts.control_plane.as_ref().unwrap()).clone(),
        deployments: facts.deployments.iter().map(|live| (**live).clone()).collect(),
        ..plan(tkc, facts).unwrap()
    };
    let plan = plan(tkc, facts).unwrap();
    let by_name = |plan: &Plan| {
        let mut deployments: Vec<_> =
            plan.deployments.iter().map(ResourceExt::name_any).zip(replaces(plan).split_off(1)).collect();
        deployments.sort_by(|a, b| a.0.cmp(&b.0));
        deployments
    };
    let control_plane = replaces(&plan)[0] != replaces(&there)[0];
    let pools = by_name(&plan).into_iter().zip(by_name(&there)).map(|(planned, there)| planned != there);
    std::iter::once(control_plane).chain(pools).collect()
}

fn plan_of_nothing(tkc: &TanzuKubernetesCluster) -> Plan {
    plan(tkc, &nothing()).unwrap()
}

#[test]
fn texts_of_another_version_stay_until_the_cluster_changes() {
    let fixture = ClusterFixture::running(pools());
    let there = of_another_version(&fixture);
    assert_eq!(rolls(&fixture.tkc, &there), [false; 4], "the same spec");
    let kept = plan(&fixture.tkc, &there).unwrap();
    assert!(marks(&kept).iter().all(|mark| mark.ends_with(".0123456789abcdef")), "{:?}", marks(&kept));
    assert_eq!(kept.obsolete, crate::cluster::plan::Obsolete::default());
    // The plan must contain the kept values, because server-side apply removes fields that their owner omits.
    let written = |facts: &Facts| -> Vec<Value> {
        let machines = facts.machine_templates.iter().map(|template| document(&template.spec));
        machines.chain(facts.config_templates.iter().map(|template| document(&template.spec))).collect()
    };
    let machines = kept.machine_templates.iter().map(|template| document(&template.spec));
    let configs = kept.config_templates.iter().map(|template| document(&template.spec));
    assert_eq!(machines.chain(configs).collect::<Vec<_>>(), written(&there));

    for (change, expected) in [
        (
            json!({"spec": {"topology": {"controlPlane": {"vmClass": "guaranteed-large"}}}}),
            [true, false, false, false],
        ),
        (
            json!({"spec": {"topology": {"controlPlane": {"nodeDrainTimeout": "1h", "replicas": 3}}}}),
            [false; 4],
        ),
        (json!({"spec": {"settings": {"network": {"proxy": {"noProxy": [".example"]}}}}}), [true; 4]),
        (json!({"spec": {"settings": {"storage": {"classes": ["gold"]}}}}), [false; 4]),
    ] {
        let mut written = document(&fixture.tkc);
        merge(&mut written, &change);
        let tkc: TanzuKubernetesCluster = from_tkc(written);
        assert_eq!(rolls(&tkc, &there), expected, "{change}");
    }
    let with_pool = |change: &dyn Fn(&mut api::gcm::parts::NodePool)| {
        let mut tkc = fixture.tkc.clone();
        change(&mut tkc.spec.topology.node_pools[0]);
        rolls(&tkc, &there).iter().filter(|rolls| **rolls).count()
    };
    assert_eq!(with_pool(&|pool| pool.replicas = Some(7)), 0);
    assert_eq!(with_pool(&|pool| pool.node_drain_timeout = Some("7m".into())), 0);
    assert_eq!(
        with_pool(&|pool| pool.labels = Some([("node-role.kubernetes.io/x".into(), String::new())].into())),
        0
    );
    assert_eq!(with_pool(&|pool| pool.labels = Some([("tier".into(), "x".into())].into())), 1);
    assert_eq!(with_pool(&|pool| pool.storage_class = "silver".into()), 1);
}

/// Manual edits to the cluster's objects are reverted.
#[test]
fn what_this_version_made_is_put_right() {
    let fixture = ClusterFixture::running(pools());
    let mut facts = fixture.facts();
    let kcp = Arc::make_mut(facts.control_plane.as_mut().unwrap());
    kcp.spec.kubeadm_config_spec.as_mut().unwrap().pre_kubeadm_commands = Some(vec!["reboot".to_owned()]);
    assert_eq!(replaces(&plan(&fixture.tkc, &facts).unwrap()), replaces(&fixture.plan));
}

#[test]
fn machines_whose_template_is_gone_are_made_from_a_new_one() {
    let fixture = ClusterFixture::running(sound());
    let mut there = of_another_version(&fixture);
    there.config_templates.clear();
    assert_eq!(rolls(&fixture.tkc, &there), [false, true]);
}

/// Another digest for the same recipe would replace every machine of every cluster, so these digests must never change.
#[test]
fn recipes_are_digested_as_ever() {
    let digests = |tkc: TanzuKubernetesCluster| -> Vec<String> {
        let marks = marks(&plan_of_nothing(&stored(tkc)));
        marks.iter().map(|mark| mark.split_once('.').unwrap().0.to_owned()).collect()
    };
    insta::assert_yaml_snapshot!([digests(sound()), digests(pools()), digests(super::seed())]);
}

fn merge(object: &mut Value, change: &Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (name, change) in change {
                merge(object.entry(name).or_insert(Value::Null), change);
            }
        }
        (object, change) => *object = change.clone(),
    }
}

fn from_tkc(mut written: Value) -> TanzuKubernetesCluster {
    written["apiVersion"] = json!("run.tanzu.vmware.com/v1alpha3");
    written["kind"] = json!("TanzuKubernetesCluster");
    from::<TanzuKubernetesCluster>(written)
}

fn set_proxy(tkc: &mut TanzuKubernetesCluster, no_proxy: Option<Vec<String>>) {
    let network = tkc.spec.settings.as_mut().unwrap().network.as_mut().unwrap();
    let address = Some("http://10.0.0.1:80".to_owned());
    network.proxy = Some(Proxy { http_proxy: address.clone(), https_proxy: address, no_proxy });
}

/// An empty proxy means that the cluster doesn't inherit one, so nodes don't use a proxy.
#[test]
fn an_empty_proxy_is_the_recipe_of_none() {
    let fixture = ClusterFixture::running(sound());
    let there = of_another_version(&fixture);
    let empty = changed(&fixture.tkc, "/spec/settings/network/proxy", json!({}));
    assert_eq!(rolls(&empty, &there), [false; 2]);
    let mut real = empty;
    set_proxy(&mut real, Some(Vec::new()));
    assert_eq!(rolls(&real, &there), [true; 2]);
}

/// A cluster can have such a spec if it was stored before the rule existed, or while admission was switched off.
#[test]
fn planning_refuses_text_that_a_node_would_execute() {
    let fixture = ClusterFixture::running(sound());
    let mut tkc = fixture.tkc.clone();
    let no_proxy = Some(vec!["x\nExecStartPre=/bin/touch /pwned".to_owned()]);
    set_proxy(&mut tkc, no_proxy);
    let refused = plan(&tkc, &fixture.facts()).expect_err("it is denied");
    assert!(matches!(refused, Invalid::Denied(_)), "{refused}");
    assert!(refused.to_string().contains("line break"), "{refused}");
}

/// Pool nodes must never be newer than the control plane.
#[test]
fn an_upgrade_goes_from_add_ons_to_the_control_plane_to_pools() {
    let mut fixture = ClusterFixture::running(pools());
    let mut tkc = fixture.tkc.clone();
    let release = "v1.35.1---vmware.1-vkr.1";
    tkc.spec.distribution = None;
    tkc.spec.topology.control_plane.tkr.as_mut().unwrap().reference.as_mut().unwrap().name =
        Some(release.to_owned());
    for pool in &mut tkc.spec.topology.node_pools {
        pool.tkr = None;
    }
    let tkc = stored(tkc);
    let behind = |facts: &Facts, version: &str| {
        let mut facts = facts.clone();
        let kcp = Arc::make_mut(facts.control_plane.as_mut().unwrap());
        kcp.spec.version = "v1.35.1+vmware.1".to_owned();
        kcp.status.as_mut().unwrap().version = Some(version.to_owned());
        facts
    };
    let mut facts = fixture.facts();
    assert_eq!(rolls(&tkc, &facts), [false; 4], "nobody has looked at the add-ons of the new version");
    facts.addons_for = Some("v1.35.1+vmware.1".to_owned());
    let mut failed = facts.clone();
    let report = &mut Arc::make_mut(failed.addons.as_mut().unwrap())[0];
    report.state = AddonState::Failed("the API server refuses it".to_owned());
    assert_eq!(rolls(&tkc, &failed), [false; 4], "an add-on can't be applied");
    let held = crate::cluster::status::compute_status(&tkc, &failed, None).status;
    let message = find(&held.conditions, "AddonsReady").unwrap().message.clone().unwrap();
    assert!(message.contains("the control plane keeps its version"), "{message}");
    assert_eq!(rolls(&tkc, &facts), [true, false, false, false], "the control plane goes first");
    let waiting = behind(&facts, "v1.34.2+vmware.1");
    let mut more = tkc.clone();
    more.spec.topology.node_pools[0].replicas = Some(5);
    let planned = plan(&more, &waiting).unwrap();
    assert_eq!(planned.deployments[0].spec.replicas, Some(5), "a pool that waits is scaled");
    assert_eq!(planned.obsolete, crate::cluster::plan::Obsolete::default());
    assert_eq!(rolls(&more, &waiting)[1..], [false; 3]);
    more.spec.topology.node_pools.push(api::gcm::parts::NodePool {
        name: "late".to_owned(),
        ..more.spec.topology.node_pools[0].clone()
    });
    assert_eq!(plan(&more, &waiting).unwrap().deployments.len(), 3, "a new pool waits, too");
    fixture.tkc = tkc.clone();
    let status = crate::cluster::status::compute_status(&tkc, &waiting, None).status;
    assert_ne!(status.phase.as_deref(), Some(phase::RUNNING));
    let there = behind(&facts, "v1.35.1+vmware.1");
    assert_eq!(rolls(&tkc, &there)[1..], [true; 3]);
    assert_eq!(plan(&more, &there).unwrap().deployments.len(), 4);
}
