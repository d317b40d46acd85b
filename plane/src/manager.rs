//! The kube-controller-manager command, with only the controllers that a plane without nodes needs.

use std::path::Path;

use crate::cluster::RunningApiServer;
use crate::error::Result;
use crate::process::Command;
use crate::stack::write_private;

/// The enabled controllers. In order: they delete dependents and namespaces, create `default` accounts, fill token
/// Secrets, publish the CA that programs read, add the rights that infrastructure providers lend to Cluster API's
/// managers, enforce quotas, and bind and protect volumes and claims.
const CONTROLLERS: [&str; 10] = [
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    // This controller costs little, because it shares the garbage collector's watches.
    "resourcequota-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
];

const USER: &str = "system:kube-controller-manager";

/// Returns the kube-controller-manager command. Each controller acts with its own rights.
pub(crate) fn command(cluster: &RunningApiServer, exe: &Path) -> Result<Command> {
    let pair = cluster.authorities.client.client(USER, None)?;
    let kubeconfig = cluster.stack.subfolder("kubeconfigs")?.join("kube-controller-manager");
    write_private(&kubeconfig, cluster.server.for_certificate(USER, &pair).as_bytes())?;
    Ok(Command::new(&cluster.stack, "kube-controller-manager", exe)?
        .args(args(&kubeconfig, &cluster.stack.subfolder("pki")?)))
}

fn args(kubeconfig: &Path, pki: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--root-ca-file={}", pki.join("serving-ca.crt").display()),
        format!("--service-account-private-key-file={}", pki.join("accounts.key").display()),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--use-service-account-credentials=true".to_owned(),
        // There is only one replica, which needn't wait for its predecessor's lease.
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=100".to_owned(),
        "--kube-api-burst=200".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controllers_are_few() {
        insta::assert_debug_snapshot!(args(Path::new("/d/kubeconfigs/kcm"), Path::new("/d/pki")));
    }
}
