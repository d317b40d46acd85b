//! A user follows docs/install.md block by block: from an empty cluster to the first TanzuKubernetesCluster, through
//! an upgrade, to the uninstallation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use components::catalogue::Registries;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use layercake::kube::manifest;
use serde_json::Value;
use support::wait::poll;

use crate::command::site::{address, thumbprint};
use crate::harness::command::exe;
use crate::harness::nodeless::Nodeless;
use crate::harness::ova;
use crate::harness::own_server::{apply, assert_no_right_is_missing};
use crate::harness::page_blocks::{self, Block};
use crate::harness::shared_stack::build_tool;
use crate::harness::story::{CLUSTER, SOON, Story, api_resource, assert_contains, story};
use crate::harness::tenants::kubeconfig_as;
use crate::install::init::control_plane_addresses;
use crate::install::upgrade::read_release;

/// A library that doesn't contain node images at first, and flags for `site discover`, because the simulated vCenter
/// has several libraries and networks.
const LIBRARY: &str = "published";
const CHOSEN: &str = "--namespace dev --library published --network workload-network --thumbprint ";
/// The image that `layercake image build` writes.
const IMAGE: &str = "debian-13-amd64-v1.36.3---layercake.20261121";
/// The file with the user's keyboard input: the password.
const KEYBOARD: &str = "keyboard";
const REGISTRY: &str = "registry.example.com/layercake";

#[test]
fn the_installation_page_leads_to_a_cluster_and_back() {
    story("install-page", |story| async move {
        let cluster =
            Nodeless::start(&story, &[("vmop", "--probe-address-map=10.0.0.0/8=127.0.0.0/8")]).await;
        let mut page = Reader::open(&story, &cluster).await;
        install(&mut page).await;
        import_image(&mut page).await;
        create_cluster(&mut page).await;
        show_to_others(&story, &mut page).await;
        upgrade(&mut page).await;
        uninstall(&mut page).await;
        page.end();
        cluster.stop().await;
    });
}

/// Follows steps 1 to 4.
async fn install(page: &mut Reader<'_>) {
    // govc, a release, krew, Helm, registries and a node's container runtime aren't available here.
    page.skip("export GOVC_URL=");
    page.skip("minisign -V");
    page.skip("sha256sum --check");
    page.skip("sh install.sh");
    page.skip("kubectl krew install");
    page.skip("tar -xzf layercake-v0.1.0");
    page.run("layercake version").await;
    page.skip("for name in gcm capw vmop; do");
    page.skip("for name in gcm capw vmop; do ctr");
    page.published(None);

    page.run("(umask 077; read -rs P").await;
    page.run("layercake site discover").await;
    page.skip("vCenter        ");
    // This command runs in a vCenter appliance's shell.
    page.skip("/usr/lib/vmware-vmafd/bin/vecs-cli");
    page.check("apiVersion: v1");

    let installed = page.run("layercake init -f site.yaml").await;
    let shown = page.next("cluster        ");
    for line in shown.text.lines().filter(|line| *line != "…") {
        let first = line.split("  ").next().unwrap();
        assert!(
            installed.lines().any(|line| line.starts_with(first)),
            "init prints no {first:?}: {installed}"
        );
    }
    page.run("rm password.txt").await;
    let check = page.next("layercake doctor");
    // Other stories may publish VMs to the library meanwhile.
    let report = page.shell_any(&check.text).await;
    let text = String::from_utf8_lossy(&report.stdout);
    let wrong: Vec<_> = text.lines().filter(|line| line.starts_with('×')).collect();
    assert!(wrong.iter().all(|line| line.contains("LC0602")), "{text}");
    assert_eq!(report.status.code(), Some(i32::from(!wrong.is_empty())), "{text}");
    assert_contains(&text, &["LC0304", " checks: "]);
    page.skip("kubectl set resources");
    page.run("layercake manifests --component gcm").await;
    page.skip("helm install");
    page.skip("helm show crds");
    page.check("apiVersion: ipam.cluster.x-k8s.io/v1alpha2");
}

/// Follows step 5, with an image that has a built image's descriptor and an empty disk.
async fn import_image(page: &mut Reader<'_>) {
    let folder = page.folder.path();
    let ova = ova::pack(folder, |descriptor| descriptor);
    std::fs::rename(ova, folder.join(format!("{IMAGE}.ova"))).unwrap();
    page.write_password_again().await;
    let username = page.story.shared.session.vcenter.username.clone();
    let values =
        [("NAME", IMAGE), ("LIBRARY", LIBRARY), ("USER", username.as_str()), ("FILE", "password.txt")];
    let imported = page.run_with("layercake image import NAME.ova", &values).await;
    assert_contains(&imported, &["TanzuKubernetesRelease v1.36.3---layercake."]);
    page.check("apiVersion: vmoperator.vmware.com/v1alpha1");
    page.check("apiVersion: vmoperator.vmware.com/v1alpha1");
}

/// Follows steps 6 and 7.
async fn create_cluster(page: &mut Reader<'_>) {
    page.skip("govc find");
    let vcenter = &page.story.shared.session.vcenter;
    let place = [("dev", "other"), ("resgroup-8", &vcenter.resource_pool), ("group-v3", &vcenter.folder)];
    page.run_with("kubectl create namespace dev", &place).await;
    let values = [("namespace: dev", "namespace: other"), ("Gold Policy", "vSAN Default Storage Policy")];
    page.apply_with("apiVersion: storage.k8s.io/v1", &values);

    let classes: Api<StorageClass> = Api::all(page.cluster.client());
    let classes = classes.list(&ListParams::default()).await.unwrap();
    let class = classes.iter().map(ResourceExt::name_any).find(|name| name != "gold").unwrap();
    page.run("layercake new cluster first -n dev").await;
    let shown = page.next("apiVersion: run.tanzu.vmware.com/v1alpha3").text.replace("gold", &class);
    let written = std::fs::read_to_string(page.folder.path().join("cluster.yaml")).unwrap();
    assert_eq!(written, shown + "\n");
    page.run("layercake doctor -f cluster.yaml").await;
    page.wait_until_running().await;
    let nodes = page.run("layercake kubeconfig first").await;
    assert_eq!(nodes.matches(" Ready ").count(), 3, "{nodes}");
    page.merge_kubeconfig().await;
    let healthy = page.shell("layercake doctor", 0).await;
    assert_contains(&healthy, &[" 0 errors, "]);
}

/// A namespace user sees the cluster, and checks that only an administrator can run aren't errors.
async fn show_to_others(story: &Story, page: &mut Reader<'_>) {
    page.run("kubectl create rolebinding dev-team").await;
    page.shell("kubectl create rolebinding viewer -n dev --clusterrole=view --user=viewer", 0).await;
    let kubeconfig = kubeconfig_as(page.cluster.kubeconfig(), "viewer", page.folder.path());
    let as_viewer = |command: &str| format!("KUBECONFIG={} layercake {command}", kubeconfig.display());
    let describe = as_viewer("describe tkc first -n dev");
    let is_shown = async || page.shell_any(&describe).await.status.success();
    story.wait_until("the role applies", SOON, is_shown).await;
    let described = page.shell(&describe, 0).await;
    assert_contains(&described, &["TanzuKubernetesCluster/first  ", "you may not read"]);
    let of_cluster_api = page.shell(&as_viewer("describe cluster first -n dev --exit-status"), 0).await;
    assert_contains(&of_cluster_api, &["\nCluster/first  ", "MachineDeployment/first-workers"]);
    let machine = page.machines().await.into_keys().next().unwrap();
    let vm = page.shell(&as_viewer(&format!("describe vm {machine} -n dev --exit-status")), 0).await;
    assert_contains(&vm, &[&format!("\nVirtualMachine/{machine}  "), "poweredOn"]);
    let refused = page.shell(&as_viewer("kubeconfig first -n dev"), 1).await;
    assert_contains(
        &refused,
        &["cannot read Secret dev/first-kubeconfig", "cannot get resource \"secrets\""],
    );
    let missing = page.shell(&as_viewer("describe vm none -n dev"), 1).await;
    assert_contains(&missing, &["VirtualMachine dev/none not found", "kubectl get virtualmachines -A"]);
    page.shell(&as_viewer("doctor"), 0).await;
    page.run("for name in tkg capw vmop; do").await;
}

/// Follows the section about upgrades, and upgrades an installation of v0.1.0. Machines aren't replaced.
async fn upgrade(page: &mut Reader<'_>) {
    for namespace in ["vmware-system-tkg", "vmware-system-capw", "vmware-system-vmop"] {
        assert_no_right_is_missing(&page.cluster.program(namespace));
    }
    let machines = page.machines().await;
    assert_eq!(machines.len(), 3);
    page.published(Some("v0.1.0-2"));
    // The programs here have the same version before and after, so the images have a new tag.
    let upgrade = format!("{} --layercake-tag v0.1.0-2", page.next("layercake init").text);
    let output = page.shell(&upgrade, 0).await;
    assert_contains(&output, &["gcm                    v0.1.0-2 is available"]);

    restore_old_release(page.cluster).await;
    let output = page.shell(&upgrade, 0).await;
    assert_contains(&output, &["gcm                    v0.1.0-2 is available"]);
    page.wait_until_running().await;
    page.shell("layercake doctor", 0).await;
    assert_eq!(page.machines().await, machines, "no Machine is replaced");
    page.skip("govc library.info");
}

/// Restores the v0.1.0 CRDs and configuration. The Deployments still run the current programs.
async fn restore_old_release(cluster: &Nodeless) {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for old in read_release("crds.jsonl") {
        let name = old["metadata"]["name"].as_str().unwrap();
        let mut definition = definitions.get(name).await.unwrap();
        definition.spec = serde_json::from_value(old["spec"].clone()).unwrap();
        let replaced = definitions.replace(name, &PostParams::default(), &definition).await;
        replaced.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let old = read_release("config.jsonl").into_iter().map(with_image_of_page);
    apply(cluster.kubeconfig(), "the configuration of v0.1.0", &old.collect::<Vec<_>>());
}

/// Sets an old Deployment's image to the one in its release's docs/install.md.
fn with_image_of_page(mut document: Value) -> Value {
    if let Some(image) = document.pointer_mut("/spec/template/spec/containers/0/image") {
        let name =
            image.as_str().and_then(|image| image.rsplit('/').next()?.split(':').next()).unwrap_or_default();
        *image = format!("{REGISTRY}/{name}:v0.1.0").into();
    }
    document
}

async fn uninstall(page: &mut Reader<'_>) {
    let plan = page.shell("layercake uninstall --plan", 3).await;
    assert_contains(&plan, &["1 TanzuKubernetesCluster", "Delete them first"]);
    page.run("kubectl delete tanzukubernetesclusters --all -A").await;
    let plan = page.shell("layercake uninstall --plan", 0).await;
    assert_contains(&plan, &["vmop", "delete namespace vmware-system-vmop"]);
    // Check these manifests while their CRDs still exist.
    page.check_all().await;
    page.run("layercake uninstall").await;
    let kinds = "crd,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let left = page.shell(&format!("kubectl get {kinds} -o name"), 0).await;
    let of_kubernetes = |name: &str| {
        ["/system:", "/cluster-admin", "/admin", "/edit", "/view"].iter().any(|own| name.contains(own))
    };
    // The administrator created these in the sections about users and metrics.
    let of_administrator = |name: &str| name.contains("/dev-team-") || name.contains("/collector-");
    let left: Vec<_> = left.lines().filter(|name| !of_kubernetes(name) && !of_administrator(name)).collect();
    assert_eq!(left, Vec::<&str>::new());
    let namespaces = page.shell("kubectl get namespaces -o name", 0).await;
    assert_eq!(namespaces.matches("-system").count(), 1, "only kube-system stays: {namespaces}");
    let again = page.shell("layercake uninstall", 0).await;
    assert_contains(&again, &["Neither Layercake nor Cluster API is installed"]);
}

/// A user who follows the page with this site's values.
struct Reader<'a> {
    story: &'a Story,
    cluster: &'a Nodeless,
    folder: tempfile::TempDir,
    blocks: std::vec::IntoIter<Block>,
    /// Texts of the page, each with its replacement for this site.
    values: Vec<(&'static str, String)>,
    /// The manifests that this site doesn't need.
    unused: Vec<String>,
}

impl<'a> Reader<'a> {
    async fn open(story: &'a Story, cluster: &'a Nodeless) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let link = |target: PathBuf, name: &str| {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        };
        link(exe().to_owned(), "layercake");
        link(build_tool(&plane::tools::KUBECTL), "kubectl");
        let vcenter = &story.shared.session.vcenter;
        let password = vcenter.password().unwrap();
        std::fs::write(folder.path().join(KEYBOARD), format!("{password}\n")).unwrap();
        let (endpoints, gateway) = control_plane_addresses(story).await;
        let values = vec![
            ("vcenter.example.com", address(story)),
            ("layercake@vsphere.local", vcenter.username.clone()),
            ("10.20.128.0/17", "10.0.0.0/8".to_owned()),
            ("10.20.0.10-10.20.0.99", endpoints),
            ("10.20.0.1", gateway),
            ("--namespace dev ", format!("{CHOSEN}{} ", thumbprint(story))),
        ];
        let blocks = page_blocks::read("install.md").into_iter();
        Self { story, cluster, folder, blocks, values, unused: Vec::new() }
    }

    fn next(&mut self, begins: &str) -> Block {
        let block = self.blocks.next().unwrap_or_else(|| panic!("the page ends before {begins:?}"));
        let Block { heading, .. } = &block;
        assert!(block.begins().starts_with(begins), "{heading}: {:?} instead of {begins:?}", block.begins());
        block
    }

    fn skip(&mut self, begins: &str) {
        self.next(begins);
    }

    /// Takes the next block, a manifest that this site replaces or doesn't need.
    fn check(&mut self, begins: &str) {
        let block = self.next(begins);
        self.unused.push(block.text);
    }

    fn apply_with(&mut self, begins: &str, values: &[(&str, &str)]) {
        let text = self.next(begins).text;
        let text = values.iter().fold(text, |text, (from, to)| text.replace(from, to));
        apply(self.cluster.kubeconfig(), begins, &manifest::documents(&text).unwrap());
    }

    /// Checks that the API server accepts the manifests that this site doesn't need.
    async fn check_all(&mut self) {
        for text in std::mem::take(&mut self.unused) {
            for document in manifest::documents(&text).unwrap() {
                let checked = layercake::kube::apply::dry_run(&self.cluster.client(), &document).await;
                checked.unwrap_or_else(|error| panic!("{error:#}: {text}"));
            }
        }
    }

    /// Runs the next block and returns its output.
    async fn run(&mut self, begins: &str) -> String {
        self.run_with(begins, &[]).await
    }

    /// Runs the next block with replaced words.
    async fn run_with(&mut self, begins: &str, values: &[(&str, &str)]) -> String {
        let text = self.next(begins).text;
        let text = values.iter().fold(text, |text, (from, to)| text.replace(from, to));
        self.shell(&text, 0).await
    }

    /// Runs the command from step 2 again, as the page says.
    async fn write_password_again(&self) {
        let blocks = page_blocks::read("install.md");
        let written =
            blocks.iter().find(|block| block.begins().starts_with("(umask 077; read -rs P")).unwrap();
        self.shell(&written.text, 0).await;
    }

    /// Merges the cluster twice into a kubeconfig that contains the management cluster, and uses its context.
    async fn merge_kubeconfig(&self) {
        self.shell("cp $KUBECONFIG own && chmod 600 own", 0).await;
        for _ in 0..2 {
            let merged = self.shell("KUBECONFIG=own layercake kubeconfig first -n dev --merge", 0).await;
            assert_contains(&merged, &["kubectl --context first-admin@first"]);
        }
        let nodes = self.shell("KUBECONFIG=own kubectl --context first-admin@first get nodes", 0).await;
        assert_eq!(nodes.matches(" Ready ").count(), 3, "{nodes}");
        self.shell("KUBECONFIG=own kubectl get namespace dev", 0).await;
        let missing = self.shell("layercake kubeconfig none -n dev", 1).await;
        assert_contains(&missing, &["cluster dev/none does not exist"]);
    }

    /// Runs commands, checks their exit status, and returns their output on both streams.
    async fn shell(&self, text: &str, status: i32) -> String {
        let output = self.shell_any(text).await;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        eprintln!("$ {text}\n{printed}");
        assert_eq!(output.status.code(), Some(status), "{text}\n{printed}");
        printed
    }

    async fn shell_any(&self, text: &str) -> Output {
        let text = self.values.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        let path = std::env::var("PATH").unwrap_or_default();
        let keyboard = std::fs::File::open(self.folder.path().join(KEYBOARD)).unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-c", &format!("exec 2>&1\n{text}")])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env("KUBECACHEDIR", self.folder.path())
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .stdin(Stdio::from(keyboard));
        // Meanwhile, this process connects the API server with the programs.
        tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap()
    }

    /// Publishes our images in the page's registry.
    fn published(&self, tag: Option<&str>) {
        let (own, own_tag) = (Some(REGISTRY.to_owned()), tag.map(str::to_owned));
        self.cluster.publish(Registries { upstream: None, own, own_tag });
    }

    /// Waits until the cluster is running. After a timeout, prints its description and panics.
    async fn wait_until_running(&self) {
        let clusters: Api<DynamicObject> =
            Api::namespaced_with(self.cluster.client(), "dev", &api_resource("TanzuKubernetesCluster"));
        let is_running = || async {
            let cluster = clusters.get("first").await.unwrap();
            (cluster.data["status"]["phase"] == "running").then_some(())
        };
        if let Err(late) = poll("the cluster is running", CLUSTER, is_running).await {
            self.shell("layercake describe tkc first -n dev", 0).await;
            panic!("{late}");
        }
    }

    async fn machines(&self) -> BTreeMap<String, Option<String>> {
        let machines: Api<DynamicObject> =
            Api::namespaced_with(self.cluster.client(), "dev", &api_resource("Machine"));
        let machines = machines.list(&ListParams::default()).await.unwrap();
        machines.iter().map(|machine| (machine.name_any(), machine.uid())).collect()
    }

    /// Checks that all blocks on the page were used.
    fn end(mut self) {
        assert_eq!(self.blocks.next(), None, "the page goes on");
        assert_eq!(self.unused, Vec::<String>::new());
    }
}
