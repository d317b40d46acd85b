//! Plans a workload cluster's add-ons.

use std::sync::Arc;

use api::capi::MachineDeployment;
use api::gcm::parts::NodePool;
use api::names::label;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Taint;
use kit::guest::server;
use kube::ResourceExt;

use crate::addons::bundle::AddonType;
use crate::addons::choice::{ChosenAddon, Offer, bundled_classes, choose, left_in_image};
use crate::addons::guests::WantedAddons;
use crate::addons::kubeadm::{DnsNodes, KubeadmAddons};
use crate::addons::render::Values;
use crate::addons::survey::{GuestSecret, SurveyPlan};
use crate::cluster::facts::Facts;
use crate::cluster::guest::accounts::build_accounts;
use crate::cluster::guest::authentication::{self, image_of};
use crate::cluster::input::Input;
use crate::cluster::node_groups::bootstrap::node_release;
use crate::cluster::pause::origin;
use crate::release::KubernetesRelease;
use crate::spec::flannel::FlannelSettings;
use crate::spec::release::current_version;
use crate::sync;
use crate::sync::storage_classes::PROVISIONER;

/// Returns a cluster's add-ons, or `None` until its API server has answered and its endpoint is known.
pub fn choose_addons(input: &Input<'_>, facts: &Facts) -> Option<WantedAddons> {
    let cluster = facts.cluster.as_ref().filter(|_| facts.is_initialized())?;
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.clone().filter(|host| !host.is_empty())?;
    let port = endpoint.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)?;
    let server = server(&host, port);
    let image = facts.releases.vm_image(&input.image.name);
    let name = input.name();
    let offer =
        Offer { cluster: &name, cni: input.network.cni, config_maps: &facts.bundles, image: image.as_ref() };
    let values = Values {
        pod_cidr: first_range(input.network.pods_or_default()),
        service_cidr: first_range(input.network.services_or_default()),
        service_domain: input.network.domain.to_owned(),
        cluster_name: name.clone(),
        cluster_namespace: input.namespace(),
        cluster_id: origin::cluster_id(input.tkc).cloned().unwrap_or_default(),
        control_plane_host: host,
        control_plane_port: port,
        kubernetes_version: input.release.kubernetes.clone(),
        flannel_backend: FlannelSettings::read(input.tkc).unwrap_or_default().backend_json(),
        node_release: node_release(input.release),
    };
    let mut synced = sync::sets(input.tkc, &facts.namespace, bundled_classes(&facts.bundles, &name).as_ref());
    synced.extend(authentication::set(input, facts));
    let kubeadm = KubeadmAddons {
        kube_proxy: image_of("kube-proxy", input.release),
        dns: choose_dns_nodes(input, facts),
    };
    let addons = choose(&offer);
    let left_in_image = left_in_image(image.as_deref(), &addons);
    let authentication = authentication::wanted_hash(input.tkc, facts);
    let survey = SurveyPlan { authentication, ..plan_survey(input, &addons, left_in_image) };
    Some(WantedAddons { server, addons, synced, values, kubeadm, survey })
}

/// Returns the input of the survey, which checks for the programs that the cluster's conditions report on.
fn plan_survey(input: &Input<'_>, addons: &[ChosenAddon], left_in_image: Vec<String>) -> SurveyPlan {
    let tokens = build_accounts(input).into_iter().map(|account| GuestSecret {
        namespace: account.spec.target_namespace,
        name: account.spec.target_secret_name,
    });
    let has_storage_bundle = addons.iter().any(|addon| addon.type_ == Some(AddonType::Csi));
    SurveyPlan {
        driver: PROVISIONER.to_owned(),
        is_storage_requested: sync::is_storage_requested(input.tkc) || has_storage_bundle,
        tokens: tokens.collect(),
        left_in_image,
        authentication: None,
    }
}

/// Returns the nodes for CoreDNS, once the whole control plane runs the release. Returns `None` if nodes can pull the image
/// from a registry.
fn choose_dns_nodes(input: &Input<'_>, facts: &Facts) -> Option<DnsNodes> {
    let release = input.release;
    let image = release.coredns.as_ref()?;
    let repository = image.image_repository.as_ref().or(release.image_repository.as_ref())?;
    if facts.virtual_ip.nodes_pull_images && !repository.starts_with("localhost") {
        return None;
    }
    let live = facts.control_plane.as_ref()?;
    let reached =
        live.status.as_ref().and_then(|status| status.version.as_ref()) == Some(&release.kubernetes);
    (reached && live.spec.version == release.kubernetes).then(|| DnsNodes {
        image_tag: image.image_tag.clone().unwrap_or_default(),
        release: node_release(release),
        has_workers: input.tkc.spec.topology.node_pools.iter().any(|pool| has_open_nodes(pool, facts)),
        stays: is_requested(input) || facts.deployments.iter().any(|live| has_release(live, release)),
    })
}

/// Returns true if the cluster requests this release. During an upgrade in steps, the control plane runs other releases before
/// the requested one.
fn is_requested(input: &Input<'_>) -> bool {
    current_version(input.tkc).is_none_or(|requested| requested == input.release.candidate.version)
}

fn has_release(live: &MachineDeployment, release: &KubernetesRelease) -> bool {
    live.spec.template.spec.version.as_ref() == Some(&release.kubernetes)
}

/// Returns true if the pool has nodes on which Pods without tolerations can run.
fn has_open_nodes(pool: &NodePool, facts: &Facts) -> bool {
    let keeps_away = |taint: &Taint| taint.effect != "PreferNoSchedule";
    let is_of_pool = |live: &&Arc<MachineDeployment>| live.labels().get(label::NODE_POOL) == Some(&pool.name);
    let replicas =
        facts.deployments.iter().find(is_of_pool).map_or(0, |live| live.spec.replicas.unwrap_or(1));
    replicas > 0 && !pool.taints.iter().flatten().any(keeps_away)
}

/// Returns the first range, without host bits, or the string itself if it can't be parsed.
fn first_range<'a>(mut ranges: impl Iterator<Item = &'a str>) -> String {
    let first = ranges.next().unwrap_or_default().trim();
    first.parse::<IpNet>().map_or_else(|_| first.to_owned(), |net| net.trunc().to_string())
}

#[cfg(test)]
mod tests {
    use api::gcm::parts::Tkr;
    use api::names::annotation;
    use bounds::Budget;

    use super::*;
    use crate::addons::builtin::{self, BuiltIn};
    use crate::addons::bundle::LIMITS;
    use crate::addons::manifest::parse;
    use crate::cluster::fixtures::{ClusterFixture, plan};
    use crate::testing::sound;

    /// Otherwise CoreDNS couldn't run on another node, and draining the only control plane node would wait forever.
    #[test]
    fn coredns_is_bound_if_a_pool_can_run_it() {
        let fixture = ClusterFixture::running(sound());
        let bound = |effect: Option<&str>, replicas: i32, reached: bool| {
            let (mut tkc, mut facts) = (fixture.tkc.clone(), fixture.facts());
            tkc.spec.topology.node_pools[0].taints = effect.map(|effect| {
                vec![Taint { key: "dedicated".into(), effect: effect.into(), ..Taint::default() }]
            });
            Arc::make_mut(&mut facts.deployments[0]).spec.replicas = Some(replicas);
            if !reached {
                let live = Arc::make_mut(facts.control_plane.as_mut().unwrap());
                live.status.as_mut().unwrap().version = Some("v1.32.0+vmware.6-fips".into());
            }
            plan(&tkc, &facts).unwrap().addons.unwrap().kubeadm.dns.map(|nodes| nodes.has_workers)
        };
        assert_eq!(bound(None, 1, true), Some(true));
        assert_eq!(bound(Some("PreferNoSchedule"), 1, true), Some(true));
        assert_eq!(bound(Some("NoSchedule"), 1, true), Some(false));
        assert_eq!(bound(Some("NoExecute"), 1, true), Some(false));
        assert_eq!(bound(None, 0, true), Some(false));
        assert_eq!(bound(None, 1, false), None, "the control plane is not there yet");
    }
    #[test]
    fn annotations_set_the_backend_and_mtu_of_flannel() {
        let fixture = ClusterFixture::running(sound());
        for (key, value, expected) in [
            ("unrelated", "", r#""Backend": {"Type": "vxlan"}"#),
            (annotation::FLANNEL_BACKEND, "host-gw", r#""Backend": {"Type": "host-gw"}"#),
            (annotation::FLANNEL_MTU, "1400", r#""Backend": {"Type": "vxlan", "MTU": 1400}"#),
        ] {
            let mut tkc = fixture.tkc.clone();
            tkc.annotations_mut().insert(key.to_owned(), value.to_owned());
            let values = plan(&tkc, &fixture.facts()).unwrap().addons.unwrap().values;
            let bundle = BuiltIn::named(builtin::NETWORK).unwrap().bundle();
            let manifests = parse(&bundle.files, &values, &Budget::new(LIMITS.bytes)).unwrap();
            let text: String = manifests.iter().map(|manifest| manifest.json.as_str()).collect();
            assert!(text.contains(&expected.replace('"', "\\\"")), "{expected}: {text}");
        }
    }

    /// In an upgrade in steps, pools skip the intermediate releases. Draining the control plane's last node must not wait.
    #[test]
    fn coredns_has_no_budget_on_a_release_that_pools_skip() {
        const NEXT: &str = "v1.34.2---vmware.1-vkr.1";
        let fixture = ClusterFixture::running(sound());
        let stays = |requested: &str, pool: &str| {
            let (mut tkc, mut facts) = (fixture.tkc.clone(), fixture.facts());
            tkc.spec.distribution = None;
            tkc.spec.topology.control_plane.tkr = Some(Tkr::named(requested));
            let live = Arc::make_mut(facts.control_plane.as_mut().unwrap());
            live.spec.version = "v1.34.2+vmware.1".to_owned();
            live.labels_mut().insert(label::TKR.to_owned(), NEXT.to_owned());
            let status = live.status.as_mut().unwrap();
            // One machine with the previous release is still being deleted.
            (status.version, status.replicas) =
                (Some("v1.34.2+vmware.1".to_owned()), status.replicas.map(|count| count + 1));
            Arc::make_mut(&mut facts.deployments[0]).spec.template.spec.version = Some(pool.to_owned());
            plan(&tkc, &facts).unwrap().addons.unwrap().kubeadm.dns.map(|nodes| nodes.stays)
        };
        assert_eq!(stays("v1.36.3---vmware.1-vkr.1", "v1.33.1+vmware.1-fips"), Some(false));
        assert_eq!(stays("v1.36.3---vmware.1-vkr.1", "v1.34.2+vmware.1"), Some(true));
        assert_eq!(stays(NEXT, "v1.33.1+vmware.1-fips"), Some(true));
    }
}
