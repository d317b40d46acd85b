//! Tenants, guests and strangers send hostile input while the programs run with their Deployments' memory limits.
//! Programs don't exit, keep their leases, and still serve other namespaces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use layercake::local::cluster::PROGRAMS;
use serde_json::{Value, json};
use support::hostile_server::HostileAnswer;
use support::process;
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::harness::objects::one_and_one;
use crate::harness::plain_vm::PlainVm;
use crate::harness::story::{CLUSTER, SOON, Story, story_on_own_stack};
use crate::tenants::hostile_guest::{repair_beside_a_hostile_guest, take_api_server_over};

/// The maximum peak memory per program in MiB. The Deployments allow 256 MiB.
const MEMORY_MIB: f64 = 200.0;
/// The maximum time to power on a VM in another namespace.
const POWER_ON: Duration = Duration::from_mins(1);
/// The maximum lease age. A holder that can't renew its lease for this long stops.
const RENEWED_WITHIN: Duration = Duration::from_secs(10);
const CLASS: &str = "best-effort-xsmall";
const HOSTILE_CLUSTER: &str = "hostile";
const OTHER_CLUSTER: &str = "other";

#[test]
fn programs_withstand_hostile_input_within_their_memory() {
    story_on_own_stack("withstand", |bystander| async move {
        let mut tenant = bystander.clone();
        tenant.namespace = "withstand-hostile".to_owned();
        for story in [&bystander, &tenant] {
            story.prepare_namespace(CLASS).await;
        }
        tenant.apply(&one_and_one(HOSTILE_CLUSTER, "workers")).await;
        bystander.apply(&one_and_one(OTHER_CLUSTER, "workers")).await;
        tenant.wait_until_running(HOSTILE_CLUSTER).await;
        bystander.wait_until_running(OTHER_CLUSTER).await;

        withstand(&bystander, "template", |begun| a_template_that_grows(&tenant, begun)).await;
        withstand(&bystander, "console", |begun| console_keys_with_huge_exponents(&tenant, begun)).await;
        withstand(&bystander, "password", |begun| long_passwords(&tenant, begun)).await;
        withstand(&bystander, "aliases", |begun| a_bundle_of_aliases(&tenant, begun)).await;
        withstand(&bystander, "webhook", |begun| reviews_of_strangers(&tenant, begun)).await;
        withstand(&bystander, "guest", |begun| answers_of_a_guest(&tenant, begun)).await;
        repair_beside_a_hostile_guest(&bystander, OTHER_CLUSTER, &tenant).await;
    });
}

/// Runs an attack. Once it is under way, a VM in another namespace is powered on. Afterwards, programs must have the
/// same processes and leases.
async fn withstand<F: Future<Output = ()>>(
    bystander: &Story,
    attack: &str,
    attacking: impl FnOnce(oneshot::Sender<()>) -> F,
) {
    let before = Programs::observe(bystander).await;
    let name = format!("beside-{attack}");
    let (under_way, is_under_way) = oneshot::channel();
    let attacking = attacking(under_way);
    let served = async {
        is_under_way.await.expect("an attack");
        let began = Instant::now();
        bystander.apply_object(&PlainVm::named(&name).object(&bystander.namespace)).await;
        bystander.wait_until_powered_on(&name).await;
        assert!(began.elapsed() < POWER_ON, "{attack}: the other namespace's VM took {:?}", began.elapsed());
    };
    tokio::join!(attacking, served);
    before.check(bystander, attack).await;
}

fn begin(begun: oneshot::Sender<()>) {
    // The receiver is only dropped if the story has failed.
    let _ = begun.send(());
}

/// The processes and leases before an attack, and the oldest lease since then.
struct Programs {
    pids: BTreeMap<&'static str, u32>,
    leases: BTreeMap<String, (Option<String>, Option<i32>)>,
    oldest: Arc<Mutex<Duration>>,
    watching: JoinHandle<()>,
}

impl Programs {
    async fn observe(story: &Story) -> Self {
        let pids = pids(story).await;
        for pid in pids.values() {
            process::reset_peak(*pid);
        }
        let oldest = Arc::<Mutex<Duration>>::default();
        let (seen, watched) = (Arc::clone(&oldest), story.clone());
        let watching = tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_millis(500));
            loop {
                every.tick().await;
                // Measure the age at the request, because a slow response isn't an old lease.
                let asked = Timestamp::now();
                for lease in leases(&watched).await {
                    let renewed = lease.spec.and_then(|spec| spec.renew_time);
                    let age = renewed.map(|renewed| asked.duration_since(renewed.0));
                    let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
                    let mut oldest = seen.lock().expect("no panic");
                    *oldest = age.max(*oldest);
                }
            }
        });
        let leases = holders(story).await;
        assert_eq!(leases.len(), PROGRAMS.len(), "{leases:?}");
        Self { pids, leases, oldest, watching }
    }

    async fn check(self, story: &Story, attack: &str) {
        self.watching.abort();
        assert_eq!(pids(story).await, self.pids, "{attack}: a program was started again");
        assert_eq!(holders(story).await, self.leases, "{attack}: a lease has another holder");
        let oldest = *self.oldest.lock().expect("no panic");
        assert!(oldest < RENEWED_WITHIN, "{attack}: a lease was not renewed for {oldest:?}");
        let peaks: Vec<_> = self.pids.iter().map(|(name, pid)| (*name, process::peak(*pid))).collect();
        eprintln!("[{attack}] peaks in MiB: {peaks:?}, oldest lease {oldest:?}");
        assert!(peaks.iter().all(|(_, peak)| *peak > 0.0 && *peak < MEMORY_MIB), "{attack}: {peaks:?}");
    }
}

async fn pids(story: &Story) -> BTreeMap<&'static str, u32> {
    let stack = story.shared.stack().await;
    PROGRAMS.iter().map(|name| (*name, stack.program(name).expect(name).pid().expect("it runs"))).collect()
}

async fn leases(story: &Story) -> Vec<Lease> {
    let all = Api::<Lease>::all(story.client()).list(&ListParams::default()).await.expect("leases");
    let ours = |lease: &Lease| lease.metadata.name.as_deref().is_some_and(|name| PROGRAMS.contains(&name));
    all.items.into_iter().filter(ours).collect()
}

async fn holders(story: &Story) -> BTreeMap<String, (Option<String>, Option<i32>)> {
    let of = |lease: Lease| {
        let spec = lease.spec.unwrap_or_default();
        (lease.metadata.name.unwrap_or_default(), (spec.holder_identity, spec.lease_transitions))
    };
    leases(story).await.into_iter().map(of).collect()
}

/// A 500-byte template that expands to a gigabyte.
async fn a_template_that_grows(tenant: &Story, begun: oneshot::Sender<()>) {
    let template =
        format!("{{{{ $a := \"aaaaaaaaaaaaaaaa\" }}}}{}", "{{ $a = print $a $a $a $a }}".repeat(13));
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "grows", "namespace": tenant.namespace}, "data": {"unattend": template},
    });
    tenant.apply_object(&map).await;
    let mut vm = PlainVm::named("grows").object(&tenant.namespace);
    vm["spec"]["vmMetadata"] = json!({"configMapName": "grows", "transport": "Sysprep"});
    tenant.apply_object(&vm).await;
    begin(begun);
    tenant.wait_for_complaint("VirtualMachine", "grows", &["unattend", "16 MiB"]).await;
}

/// Forty keys whose encryption takes half a minute each, with an 8192-bit modulus and a 40,000-bit exponent.
async fn console_keys_with_huge_exponents(tenant: &Story, begun: oneshot::Sender<()>) {
    tenant.apply_object(&PlainVm::named("shown").object(&tenant.namespace)).await;
    tenant.wait_until_powered_on("shown").await;
    let key = key(8192 / 8, 40_000 / 8);
    let mut accepted = Vec::new();
    for number in 0..40 {
        let name = format!("key-{number}");
        let request = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "WebConsoleRequest",
            "metadata": {"name": name, "namespace": tenant.namespace},
            "spec": {"virtualMachineName": "shown", "publicKey": key},
        });
        // A request that admission refuses doesn't cost anything.
        if layercake::kube::apply::apply(&tenant.client(), &request).await.is_ok() {
            accepted.push(name);
        }
    }
    begin(begun);
    for name in accepted {
        tenant.wait_for_events("WebConsoleRequest", &name, &["InvalidPublicKey"]).await;
    }
}

/// Returns a PEM `RSAPublicKey` with these modulus and exponent sizes in bytes.
fn key(modulus: usize, exponent: usize) -> String {
    let integer = |first: u8, bytes: usize| {
        let mut number = vec![0, first];
        number.resize(bytes, 0x5b);
        number.push(1);
        element(2, &number)
    };
    let der = element(0x30, &[integer(0xc1, modulus), integer(0xff, exponent)].concat());
    let lines: Vec<_> = STANDARD
        .encode(der)
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

/// Encodes a DER element with a two-byte length.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a length of two bytes").to_be_bytes();
    [&[tag, 0x82], length.as_slice(), content].concat()
}

/// Two clusters whose node password is 900 kB long.
async fn long_passwords(tenant: &Story, begun: oneshot::Sender<()>) {
    let names = ["long-one", "long-two"];
    let mut begun = Some(begun);
    for name in names {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-ssh-password"), "namespace": tenant.namespace},
            "stringData": {"ssh-passwordkey": "a".repeat(900_000)},
        });
        // The Secret is too large for the annotation of `kubectl apply`, which server-side apply doesn't add.
        tenant.apply_object(&secret).await;
        tenant.apply(&one_and_one(name, "workers")).await;
        begun.take().into_iter().for_each(begin);
    }
    for name in names {
        tenant.wait_for_ready(name, &[&format!("{name}-ssh-password"), "512"]).await;
        tenant.delete("TanzuKubernetesCluster", name, SOON).await;
    }
}

/// A one-megabyte bundle, which aliases expand to 58 MB.
async fn a_bundle_of_aliases(tenant: &Story, begun: oneshot::Sender<()>) {
    let mut manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n  a0: &a \"{}\"\n",
        "x".repeat(900_000)
    );
    for number in 1..58 {
        let _ = writeln!(manifest, "  a{number}: *a");
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "aliases", "namespace": tenant.namespace,
            "labels": {"tkg.tanzu.vmware.com/addon-name": "aliases"},
        },
        "data": {"aliases.yaml": manifest},
    });
    tenant.apply_object(&map).await;
    begin(begun);
    let says = |cluster: &Value| cluster.to_string().contains("aliases.yaml");
    let cluster = ("TanzuKubernetesCluster", HOSTILE_CLUSTER);
    tenant.wait_for_object("the bundle is refused", SOON, cluster, says).await;
    tenant.delete("ConfigMap", "aliases", SOON).await;
}

/// Unauthenticated 16 MB reviews for each gcm and vmop webhook, beside silent connections from many addresses, like
/// any local user can open them. Webhooks accept reviews, even small ones, only from the API server.
async fn reviews_of_strangers(tenant: &Story, begun: oneshot::Sender<()>) {
    let body = [b"{\"request\":{\"object\":[".as_slice(), &b"0,".repeat(8_000_000), b"0]}}"].concat();
    let body = bytes::Bytes::from(body);
    let client =
        reqwest::Client::builder().danger_accept_invalid_certs(true).no_proxy().build().expect("a client");
    let urls = webhooks(tenant).await;
    let mut silent = Vec::new();
    for url in &urls {
        let small = client.post(url).body(r#"{"request": {"uid": "u", "object": {}}}"#).send().await;
        assert_eq!(small.expect("an answer").status(), 401, "{url}");
    }
    for url in &urls {
        for index in 0..150_u8 {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(([127, 0, 0, 1 + index % 12], 0).into()).expect("an address of loopback");
            let port = url.parse::<reqwest::Url>().expect("a URL").port().expect("a port");
            silent.push(socket.connect(([127, 0, 0, 1], port).into()).await);
        }
    }
    let posts = urls.into_iter().flat_map(|url| std::iter::repeat_n(url, 4)).map(|url| {
        let post = client.post(&url).header("content-type", "application/json").body(body.clone());
        async move {
            // The webhook refuses the review or closes the connection.
            let status = post.send().await.map(|answer| answer.status());
            assert!(
                status.as_ref().is_ok_and(|status| !status.is_success()) || status.is_err(),
                "{url}: {status:?}"
            );
        }
    });
    begin(begun);
    futures::future::join_all(posts).await;
    drop(silent);
}

/// Returns our webhooks' URLs.
async fn webhooks(story: &Story) -> Vec<String> {
    let all = Api::<ValidatingWebhookConfiguration>::all(story.client());
    let all = all.list(&ListParams::default()).await.expect("webhooks").items;
    let of_ours =
        |name: &str| name.contains("vmoperator.vmware.com") || name.contains("run.tanzu.vmware.com");
    let webhooks = all.into_iter().flat_map(|configuration| configuration.webhooks.unwrap_or_default());
    let urls: Vec<_> = webhooks
        .filter(|webhook| of_ours(&webhook.name))
        .filter_map(|webhook| webhook.client_config.url)
        .collect();
    assert!(urls.len() >= 2, "{urls:?}");
    urls
}

/// Root on the only control plane node replaces the API server with one that returns 8 MB of zeros to each request.
async fn answers_of_a_guest(tenant: &Story, begun: oneshot::Sender<()>) {
    let body = [b"[".as_slice(), &b"0,".repeat(4_000_000), b"0]"].concat();
    let hostile = take_api_server_over(tenant, [HostileAnswer::json(&body)].into()).await;
    begin(begun);
    tenant.wait_until("ten answers", CLUSTER, async || hostile.answered() >= 10).await;
}
