//! A user runs the `--help` examples that aren't in a documentation page, on the stack that `up --detach` starts.

use serde_json::Value;

use crate::harness::home::{Home, small_cluster};
use crate::harness::schedule;
use crate::harness::story::assert_contains;

const NAMESPACE: &str = "dev";

#[test]
fn the_examples_of_commands_do_what_they_say() {
    let _place = schedule::enter().wait();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    home.write("cluster.yaml", &small_cluster("team", 0));
    let file = home.path("cluster.yaml");
    let (exports, _) = home.layercake(&["up", "--detach", "-f", &file], 0);
    let kubeconfig = exports.lines().find_map(|line| line.strip_prefix("export KUBECONFIG=")).unwrap();
    std::fs::copy(kubeconfig, home.path("kubeconfig")).unwrap();

    let (listed, _) = home.layercake(&["list", "-n", NAMESPACE, "-o", "json"], 0);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let listed = &listed["clusters"][0];
    assert_eq!(
        (&listed["name"], &listed["role"], &listed["plan"]),
        (&"team".into(), &"workload".into(), &"dev".into())
    );
    assert_eq!(listed["labels"]["run.tanzu.vmware.com/tkr"], listed["tkr"]);
    let (tree, _) = home.layercake(&["describe", "cluster", "team", "-n", NAMESPACE, "--exit-status"], 0);
    assert_contains(&tree, &["Cluster/team ", "KubeadmControlPlane", "VirtualMachine"]);
    let vm = home.kubectl(&[
        "-n",
        NAMESPACE,
        "get",
        "virtualmachines",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ]);
    let (described, _) = home.layercake(&["describe", "vm", &vm, "-n", NAMESPACE, "-o", "json"], 0);
    let described: Value = serde_json::from_str(&described).unwrap();
    assert_contains(described.to_string(), &[&vm, "VirtualMachine"]);
    let (_, refused) = home.layercake(&["console", &vm, "-n", NAMESPACE, "--follow"], 1);
    assert_contains(&refused, &["has no serial console here", "up --nodes qemu"]);

    let (found, _) = home.layercake(&["doctor", "-f", &file, "--fail-on", "warning"], 0);
    assert_contains(&found, &["0 errors, 0 warnings"]);
    let (explained, _) = home.layercake(&["doctor", "--explain", "LC0302"], 0);
    assert_contains(&explained, &["LC0302"]);
    let bundle = home.path("bundle.tgz");
    home.layercake(&["bundle", "-n", NAMESPACE, "--since", "1h", "--output-file", &bundle], 0);
    assert!(std::fs::metadata(&bundle).unwrap().len() > 0);

    let mirror = "registry.example.com/mirror";
    let (images, _) = home.layercake(&["init", "list-images", "--image-registry", mirror], 0);
    assert!(images.lines().count() > 5 && images.lines().all(|image| image.starts_with(mirror)), "{images}");

    home.write("flat.yaml", "CLUSTER_NAME: flat\nCLUSTER_PLAN: dev\nCLUSTER_CIDR: 100.96.0.0/11\n");
    let flat = home.path("flat.yaml");
    let (converted, _) = home.layercake(
        &[
            "convert",
            &flat,
            "--release=v1.36",
            "--vm-class=best-effort-large",
            "--storage-class=gold",
            "-n",
            NAMESPACE,
        ],
        0,
    );
    home.write("converted.yaml", &converted);
    home.layercake(&["lint", &home.path("converted.yaml")], 0);
    let (found, _) = home.layercake(&["lint", &flat], 1);
    assert_contains(&found, &["`layercake convert FILE`"]);
    let (_, refused) = home.layercake(&["apply", "-f", &flat], 2);
    assert_contains(&refused, &["`layercake convert FILE`"]);
    let (printed, checked) = home.layercake(
        &[
            "convert",
            &flat,
            "--release=v1.36",
            "--vm-class=best-effort-large",
            "--storage-class=gold",
            "-n",
            NAMESPACE,
            "--apply",
            "--dry-run",
        ],
        0,
    );
    assert_eq!(printed, converted);
    assert_contains(&checked, &["TanzuKubernetesCluster dev/flat: accepted (dry run"]);

    let (version, _) = home.layercake(&["version", "-o", "json"], 0);
    assert!(serde_json::from_str::<Value>(&version).unwrap().is_object());
    let (completion, _) = home.layercake(&["completion", "bash"], 0);
    assert_contains(&completion, &["complete -F", "layercake"]);
    let (_, stopped) = home.layercake(&["down"], 0);
    assert_contains(&stopped, &["Stopped."]);
    assert_eq!(home.processes(), Vec::<String>::new());
}
