//! Tests nodes with real programs, but without a vCenter.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, PostParams};
use plane::StackIdentity;

use super::boot::{Guest, boot};
use super::certs::pin;
use super::datasource::Seed;
use super::disk::Disk;
use super::etcd::Etcd;
use super::failure::Reason;
use super::guest_vm::{GuestVm, Programs};
use super::kubeadm::BootstrapToken;
use super::kubeconfig::client;
use super::objects::ObjectWriter;
use super::provoked::Provoked;
use super::sample::{self, PKI, Pki, Sample, TOKEN};
use crate::addresses::Subnet;
use crate::network::balancer::VirtualServer;
use crate::pattern::Patterns;

/// The environment variable for a folder that contains all node programs.
const PROGRAMS: &str = "LAYERCAKE_GUEST_PROGRAMS";

/// Returns the node programs if they have already been built. Building them would take ten minutes.
fn programs() -> Option<Programs> {
    if let Some(folder) = std::env::var_os(PROGRAMS).map(PathBuf::from) {
        return Some(sample::programs(&folder));
    }
    let built: Vec<_> = std::fs::read_dir(plane::tools::cache_folder().ok()?.join("tools"))
        .ok()?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    let has = |module: &str| built.iter().any(|name| name.to_string_lossy().starts_with(module));
    if !["etcd-", "k8s-", "kubelet-", "vcsim-", "capi-"].into_iter().all(has) {
        return None;
    }
    let options =
        plane::tools::Options { further: crate::tools::programs(), ..plane::tools::Options::default() };
    let tools = plane::tools::ensure(&options, &*plane::tools::progress()).unwrap();
    Some(Programs::from(&tools))
}

struct Site {
    stack: Arc<StackIdentity>,
    subnet: Subnet,
    programs: Arc<Programs>,
}

impl Drop for Site {
    fn drop(&mut self) {
        // Programs that a failed test leaves behind are being killed and may still write files, so retry.
        for _ in 0..10 {
            if std::fs::remove_dir_all(self.stack.folder()).is_ok() {
                break;
            }
        }
    }
}

impl Site {
    fn guest_vm(&self, name: &str) -> GuestVm {
        let folder = self.stack.folder().join("guests").join(name);
        GuestVm {
            name: name.to_owned(),
            address: self.subnet.guest_address(name).unwrap(),
            disk: Disk::at(folder).unwrap(),
            programs: Arc::clone(&self.programs),
            stack: Arc::clone(&self.stack),
            kubernetes_version: None,
            images: sample::images("v1.33.1+vmware.1"),
            boot_timeout: Duration::from_mins(1),
            addresses: Arc::default(),
            silent: Patterns::default(),
            provoked: Provoked::default(),
        }
    }

    async fn boot(&self, name: &str, userdata: &str) -> Guest {
        let guest = boot(self.guest_vm(name), Sample::metadata(name).as_bytes(), userdata.as_bytes()).await;
        guest.unwrap_or_else(|failure| panic!("{name}: {failure}"))
    }

    async fn admin(&self, name: &str) -> kube::Client {
        client(&self.guest_vm(name).disk.read("/etc/kubernetes/super-admin.conf").unwrap()).await.unwrap()
    }

    async fn members(&self, name: &str) -> Vec<(String, bool)> {
        let guest_vm = self.guest_vm(name);
        let etcd =
            Etcd::at(vec![format!("https://{}:2379", guest_vm.address.served)], &guest_vm.disk, PKI).unwrap();
        let members = etcd.members().await.unwrap();
        let mut members: Vec<_> =
            members.into_iter().map(|member| (member.name, member.is_learner)).collect();
        members.sort();
        members
    }
}

/// Tests join configurations that only a live cluster can reject.
async fn wrong_joins(site: &Site, sample: &Sample) {
    let other = Sample { pki: Pki::generate(), endpoint: sample.endpoint.clone(), version: sample.version };
    let nobody = Sample { pki: Pki::generate(), endpoint: "127.0.0.1:1".to_owned(), version: sample.version };
    let (worker, control_plane) = (sample.join_worker(), sample.join_control_plane());
    let own_ca = sample.pki.ca.0.replace('\n', "\n      ");
    let other_keys =
        other.join_control_plane().replace(&pin(&other.pki.ca.0).unwrap(), &pin(&sample.pki.ca.0).unwrap());
    assert!(control_plane.contains(&own_ca));
    for (name, userdata, reason) in [
        ("a token that does not exist", worker.replace("abcdef.", "fedcba."), Reason::Discovery),
        (
            "a token with another secret",
            worker.replace(".0123456789abcdef", ".fedcba9876543210"),
            Reason::BootstrapToken,
        ),
        ("the pin of another cluster", other.join_worker(), Reason::CaHash),
        ("an endpoint that does not answer", nobody.join_worker(), Reason::Discovery),
        ("the keys of another cluster", other_keys, Reason::Certificate),
        (
            "a field that kubeadm does not know",
            worker.replace("discovery:", "discoveries:"),
            Reason::KubeadmConfig,
        ),
        ("a token that is none", worker.replace(TOKEN, "abcdef-0123456789abcdef"), Reason::KubeadmConfig),
    ] {
        let guest_vm = GuestVm { boot_timeout: Duration::from_millis(300), ..site.guest_vm("wrong") };
        let failure = boot(guest_vm, Sample::metadata("wrong").as_bytes(), userdata.as_bytes())
            .await
            .map(drop)
            .unwrap_err();
        assert_eq!(failure.reason, reason, "{name}: {failure}");
        assert!(!failure.message.contains("0123456789abcdef"), "{name} tells the token");
    }
}

async fn can_write(client: &kube::Client) -> bool {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut map = ConfigMap::default();
    map.metadata.generate_name = Some("probe-".into());
    matches!(
        tokio::time::timeout(Duration::from_secs(3), maps.create(&PostParams::default(), &map)).await,
        Ok(Ok(_))
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_become_a_cluster_that_lives_through_reboots() {
    let Some(programs) = programs() else {
        eprintln!(
            "SKIPPED: no real nodes, since etcd, kube-apiserver and the others are not built yet (layercake up builds them)"
        );
        return;
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let site = Site {
        stack: Arc::new(StackIdentity::ephemeral().unwrap()),
        subnet: Subnet::claim().unwrap(),
        programs: Arc::new(programs),
    };
    let start = Instant::now();
    let log = |what: &str| eprintln!("{:5.1} s {what}", start.elapsed().as_secs_f32());

    let vip = site.subnet.vip("sample").unwrap();
    let balancer = VirtualServer::listening(vip, 6443).await.unwrap();
    let backend = |name: &str| (site.subnet.guest_address(name).unwrap().served, 6443).into();
    balancer.set_backends(vec![backend("cp-1"), backend("cp-2")]);
    let pki = Pki::rsa(&site.programs.kubeadm, &site.stack.folder().join("pki"));
    let sample = Sample { pki, endpoint: format!("{vip}:6443"), version: "v1.33.1+vmware.1" };
    log("keys");

    let mut first = site.boot("cp-1", &sample.init()).await;
    log("first control plane");
    let admin = site.admin("cp-1").await;
    let token = BootstrapToken { token: TOKEN.into(), ..BootstrapToken::default() };
    ObjectWriter(admin.clone()).token(&token).await.unwrap();
    let (worker, control_plane) = (sample.join_worker(), sample.join_control_plane());
    let (mut third, mut second) =
        tokio::join!(site.boot("worker", &worker), site.boot("cp-2", &control_plane));
    log("worker and second control plane");

    no_node_is_ready_without_its_container_network(&admin).await;
    log("container network");

    let common = "v1.33.1+vmware.1 node-role.kubernetes.io/control-plane";
    let expected = [
        format!("cp-1 vsphere://uuid-of-cp-1 {common}"),
        format!("cp-2 vsphere://uuid-of-cp-2 {common}"),
        "worker vsphere://uuid-of-worker v1.33.1+vmware.1 node.cluster.x-k8s.io/uninitialized".to_owned(),
    ];
    // Every new node is tainted as not ready until the controllers have seen that it is ready.
    let shown = settled(&admin, &expected).await;
    assert_eq!(shown, expected);
    let both = [("cp-1".to_owned(), false), ("cp-2".to_owned(), false)];
    assert_eq!(site.members("cp-1").await, both);

    wrong_joins(&site, &sample).await;
    log("wrong joins refused");

    second.power_off().await;
    log("second control plane off");
    assert!(!can_write(&admin).await, "a write without quorum");
    let redacted = Seed::from_parts(Sample::metadata("cp-2").as_bytes(), None).unwrap();
    second.boot(&redacted).await.unwrap();
    log("second control plane on again");
    assert!(can_write(&admin).await);
    assert_eq!(site.members("cp-2").await, both);
    for guest in [&mut first, &mut second, &mut third] {
        guest.power_off().await;
    }
}

/// Asserts that nodes report like a real kubelet without a container network, and then installs one.
async fn no_node_is_ready_without_its_container_network(client: &kube::Client) {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    for node in nodes {
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("KubeletNotReady")));
        assert!(ready.message.unwrap().contains("cni plugin not initialized"));
    }
    let manifests = crate::vcsim::addons::Addons::of(33).manifest("antrea", "antrea-agent");
    let documents = serde_saphyr::from_multiple::<serde_json::Value>(&manifests).unwrap();
    let [map, set]: [serde_json::Value; 2] = documents.try_into().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), "kube-system");
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

async fn settled(client: &kube::Client, expected: &[String]) -> Vec<String> {
    let nodes = Api::<Node>::all(client.clone());
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let all: Vec<_> = nodes.list(&ListParams::default()).await.unwrap().iter().map(shown).collect();
        if all == expected || Instant::now() > deadline {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn shown(node: &Node) -> String {
    let spec = node.spec.clone().unwrap_or_default();
    let version = node.status.clone().and_then(|status| status.node_info).unwrap_or_default().kubelet_version;
    let taints: Vec<_> = spec.taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect();
    format!(
        "{} {} {version} {}",
        node.metadata.name.clone().unwrap_or_default(),
        spec.provider_id.unwrap_or_default(),
        taints.join(",")
    )
}
