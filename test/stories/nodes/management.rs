//! A management cluster on a machine that really boots. All programs run there as Pods, as in an installation, and
//! create another cluster's VMs while each Pod is killed.

use std::process::Output;

use components::catalogue::COMPONENTS;
use layercake::kube::manifest;
use layercake::local::up::prepare;
use serde_json::{Value, json};
use support::wait::poll;

use crate::harness::command::layercake;
use crate::harness::real_site::{BOOTS, RealSite, RealWorkloadCluster, on_management_site};
use crate::harness::story::assert_contains;
use crate::nodes::real_node::control_plane_alone;

/// The cluster that the Pods create, and its namespace.
const CLUSTER: &str = "created";
const NAMESPACE: &str = "teams";

#[test]
#[ignore = "boots two machines, the second beside seven managers: more than forty minutes where they are emulated"]
fn the_programs_run_as_pods_and_create_a_cluster_while_each_is_killed() {
    on_management_site(async |site, release| {
        site.apply(&control_plane_alone("real", release)).await;
        let is_running = async || {
            let cluster = site.get("TanzuKubernetesCluster", "real").await?;
            (cluster["status"]["phase"] == "running").then_some(())
        };
        site.wait_for("the management cluster runs", BOOTS, is_running).await;
        let management = Management { site, guest: RealWorkloadCluster::of(site).await };
        management.guest.wait_for_nodes(1).await;
        management.install().await;
        management.create_cluster(release).await;
        management.kill_each_pod().await;
        management.assert_cluster_is_whole().await;
        management.delete_cluster().await;
        site.delete_all().await;
    });
}

struct Management<'a> {
    site: &'a RealSite,
    guest: RealWorkloadCluster,
}

impl Management<'_> {
    /// Installs as docs/install.md says, with images that are already on the node.
    async fn install(&self) {
        let vcenter = self.site.stack.session().vcenter;
        let port = vcenter.authority.rsplit_once(':').unwrap().1;
        let address = format!("{}:{port}", self.site.host_address());
        let password = vcenter.password_file.to_str().unwrap();
        let network = self.site.host_address().to_string();
        let network = network.strip_suffix(".0.1").unwrap();
        let endpoints = format!("{network}.252.10-{network}.252.99");
        let gateway = format!("{network}.0.2");
        let mut discover = vec!["site", "discover", "--vcenter", &address, "--user", &vcenter.username];
        discover.extend([
            "--password-file",
            password,
            "--network",
            &vcenter.network,
            "--library",
            "layercake",
        ]);
        discover.extend(["--endpoints", &endpoints, "--prefix", "16", "--gateway", &gateway]);
        // The address ranges that dnsmasq assigns.
        let ranges = ["0.0/17", "128.0/18", "192.0/19", "224.0/20", "240.0/21", "248.0/23"];
        let ranges = ranges.map(|range| format!("{network}.{range}"));
        discover.extend(ranges.iter().flat_map(|range| ["--node-addresses", range]));
        let untrusted = self.layercake(&discover).await;
        let errors = String::from_utf8(untrusted.stderr).unwrap();
        let thumbprint = errors.trim_end().rsplit(' ').next().unwrap();
        discover.extend(["--thumbprint", thumbprint]);
        let found = self.layercake(&discover).await;
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let file = self.site.folder().join("site.yaml");
        std::fs::write(&file, &found.stdout).unwrap();

        let file = file.to_str().unwrap();
        let mut init = vec!["init", "-f", file, "--user", &vcenter.username, "--password-file", password];
        init.extend(["--timeout", "40m"]);
        let installed = self.layercake(&init).await;
        let text = String::from_utf8_lossy(&installed.stdout) + String::from_utf8_lossy(&installed.stderr);
        eprintln!("{text}");
        assert!(installed.status.success());
        let pods = self.guest.kubectl(&["get", "pods", "-A", "-o", "wide"], None).await.unwrap();
        eprintln!("{pods}");
        for component in &COMPONENTS {
            let is_ready = |line: &str| {
                line.contains(component.deployment) && line.contains(" 1/1 ") && line.contains(" Running ")
            };
            assert!(pods.lines().any(is_ready), "{} has no Pod that runs", component.name);
        }
    }

    async fn create_cluster(&self, release: &str) {
        let cluster = created_cluster(release);
        let documents = manifest::documents(&cluster.to_string()).unwrap();
        let placement = self.site.stack.session().placement();
        let client = &self.guest.client;
        let refusal = std::sync::Mutex::new(String::new());
        // The release exists only after the VM operator has read the library.
        let apply = async || {
            prepare::prepare_namespaces(client, &documents, &placement).await?;
            layercake::kube::apply::apply(client, &cluster).await
        };
        let accepted =
            async || apply().await.inspect_err(|error| *refusal.lock().unwrap() = format!("{error:#}")).ok();
        if let Err(late) = poll("the cluster is accepted", BOOTS / 4, accepted).await {
            panic!("{late}: {}", refusal.lock().unwrap());
        }
    }

    /// Kills each Deployment's Pods in turn, without a grace period, and waits until new Pods are available.
    async fn kill_each_pod(&self) {
        for component in &COMPONENTS {
            let namespace = component.namespace;
            let of = ["-n", namespace, "-o", "name"];
            let before = self.guest.kubectl(&[&["get", "pods"][..], &of].concat(), None).await.unwrap();
            let kill = ["delete", "pods", "--all", "-n", namespace, "--grace-period=0", "--force"];
            self.guest.kubectl(&kill, None).await.unwrap();
            let available = [
                "wait",
                "-n",
                namespace,
                "deployment",
                "--all",
                "--for=condition=Available",
                "--timeout=60s",
            ];
            let replaced = async || {
                let now = self.guest.kubectl(&[&["get", "pods"][..], &of].concat(), None).await.ok()?;
                let others = !now.is_empty() && !now.lines().any(|pod| before.contains(pod));
                (others && self.guest.kubectl(&available, None).await.is_ok()).then_some(())
            };
            self.site
                .wait_for(&format!("the Pods of {} are replaced", component.name), BOOTS, replaced)
                .await;
        }
    }

    /// Checks that the cluster runs, and that it has a single VM.
    async fn assert_cluster_is_whole(&self) {
        let phase =
            ["get", "tanzukubernetescluster", CLUSTER, "-n", NAMESPACE, "-o", "jsonpath={.status.phase}"];
        let is_running = async || {
            let now = self.guest.kubectl(&phase, None).await.ok()?;
            (now == "running").then_some(())
        };
        if let Err(late) = poll("the created cluster runs", BOOTS * 2, is_running).await {
            let described = self.layercake(&["describe", "tkc", CLUSTER, "-n", NAMESPACE]).await;
            panic!("{late}\n{}", String::from_utf8_lossy(&described.stdout));
        }
        let machines = ["get", "machines,virtualmachines", "-n", NAMESPACE, "-o", "name"];
        let objects = self.guest.kubectl(&machines, None).await.unwrap();
        assert_eq!(objects.lines().count(), 2, "{objects}");
        let vms = self.vms().await;
        eprintln!("VMs of the created cluster: {vms:?}");
        assert_eq!(vms.len(), 1, "{vms:?}");
        let described = self.layercake(&["describe", "tkc", CLUSTER, "-n", NAMESPACE, "--exit-status"]).await;
        let text = String::from_utf8_lossy(&described.stdout);
        eprintln!("{text}");
        assert_eq!(described.status.code(), Some(0), "{text}");
        let checked = self.layercake(&["doctor"]).await;
        let text = String::from_utf8_lossy(&checked.stdout);
        eprintln!("{text}");
        assert_contains(&text, &[" 0 errors, "]);
    }

    async fn delete_cluster(&self) {
        let delete = ["delete", "tanzukubernetescluster", CLUSTER, "-n", NAMESPACE, "--wait=false"];
        self.guest.kubectl(&delete, None).await.unwrap();
        let get = ["get", "tanzukubernetesclusters,virtualmachines", "-n", NAMESPACE, "-o", "name"];
        self.guest.wait_for_output("no object is left", &get, str::is_empty).await;
        assert_eq!(self.vms().await, Vec::<String>::new());
    }

    async fn vms(&self) -> Vec<String> {
        let inventory = self.site.control.inventory().await.unwrap();
        let names = inventory.vms.into_iter().map(|vm| vm.name);
        names.filter(|name| name.starts_with(CLUSTER)).collect()
    }

    /// Runs `layercake` with the management cluster's kubeconfig.
    async fn layercake(&self, args: &[&str]) -> Output {
        let mut command = layercake(args);
        command.env("KUBECONFIG", &self.guest.kubeconfig);
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
    }
}

fn created_cluster(release: &str) -> Value {
    let mut cluster = control_plane_alone(CLUSTER, release);
    cluster["metadata"]["namespace"] = json!(NAMESPACE);
    // The management cluster already contains the StorageClasses of its own namespace, for Pod volumes.
    cluster["spec"]["topology"]["controlPlane"]["storageClass"] = json!("silver");
    cluster
}
