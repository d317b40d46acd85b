//! Two bootstrap clusters use the same site file, and thus the same address pool for control planes.

use sim::control::PowerAction;

use crate::harness::home::{Home, small_cluster};
use crate::harness::story::{SOON, assert_contains, story};

#[test]
fn the_address_of_a_control_plane_that_is_switched_off_is_not_given_to_another_one() {
    story("shared-pool", |story| async move {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let site = home.simulate_site("-f", "dev");
        let start = |name: &str| {
            let command = ["bootstrap", "start", name].map(str::to_owned);
            home.layercake(&[command.as_slice(), &site].concat(), 0).1
        };
        start("lab");
        home.write("one.yaml", &small_cluster("one", 0));
        home.write("two.yaml", &small_cluster("two", 0));
        let apply = |name: &str, lab: &str| {
            home.layercake(&["apply", "-f", &home.path(&format!("{name}.yaml")), "--bootstrap", lab], 0);
        };
        apply("one", "lab");
        let first = endpoint(&home, "lab");
        let [router, recorded] = routers(&home, "lab");
        assert_eq!(router, recorded);
        let words =
            format!("has {first} of GlobalInClusterIPPool control-planes as its control plane endpoint");
        let warned =
            ["warning: LC0804 VM one-", "of VirtualMachine dev/one-", &words, "Give the pool addresses"];
        assert_contains(start("lab2"), &warned);
        assert!(!start("lab").contains("LC0804"));

        // The address doesn't respond, and the VM isn't powered on again.
        home.layercake(&["bootstrap", "stop", "lab"], 0);
        home.power("one", PowerAction::Off).await;
        let is_off = async || home.powered_on("one").await == 0;
        story.wait_until("the control plane is off", SOON, is_off).await;
        apply("two", "lab2");
        assert_ne!(endpoint(&home, "lab2"), first);
        assert_ne!(routers(&home, "lab2")[0], router);
        let condition = r#"{.items[0].status.conditions[?(@.type=="LoadBalancerReady")].message}"#;
        assert_contains(
            wcp_cluster(&home, "lab2", condition),
            &["two-control-plane-address", "were not used"],
        );
        let (found, _) =
            home.layercake(&["doctor", "--context", "layercake-lab2", "--only", "LC0804", "-o", "short"], 0);
        assert_contains(&found, &["LC0804 VM one-", &words, "New clusters skip these addresses"]);

        home.layercake(&["delete", "two", "-n", "dev", "--bootstrap", "lab2"], 0);
        home.layercake(&["bootstrap", "start", "lab"], 0);
        home.layercake(&["delete", "one", "-n", "dev", "--bootstrap", "lab"], 0);
        for name in ["lab", "lab2"] {
            home.layercake(&["bootstrap", "remove", name], 0);
        }
        home.layercake(&["site", "stop"], 0);
        assert_eq!(home.processes(), Vec::<String>::new());
    });
}

/// Returns a field from the bootstrap cluster's only WCPCluster.
fn wcp_cluster(home: &Home, bootstrap: &str, path: &str) -> String {
    let (context, output) = (format!("--context=layercake-{bootstrap}"), format!("--output=jsonpath={path}"));
    home.kubectl(&[context.as_str(), "get", "wcpclusters", "--namespace=dev", &output])
}

fn endpoint(home: &Home, bootstrap: &str) -> String {
    wcp_cluster(home, bootstrap, "{.items[0].spec.controlPlaneEndpoint.host}")
}

/// Returns the virtual router IDs in the only cluster and in its VM.
fn routers(home: &Home, bootstrap: &str) -> [String; 2] {
    const NUMBER: &str = r"{.items[0].metadata.annotations.capw\.vmware\.com/virtual-router-id}";
    let (context, output) =
        (format!("--context=layercake-{bootstrap}"), format!("--output=jsonpath={NUMBER}"));
    let of_vm = home.kubectl(&[context.as_str(), "get", "virtualmachines", "--namespace=dev", &output]);
    [wcp_cluster(home, bootstrap, NUMBER), of_vm]
}
