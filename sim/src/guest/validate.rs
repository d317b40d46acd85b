//! Validates a configuration with the real kubeadm.

use std::process::Stdio;

use super::failure::{Failure, Reason};
use super::guest_vm::GuestVm;
use super::kubeadm::Documents;

const COPY: &str = "/tmp/kubeadm-validate.yaml";
/// A feature gate that Cluster API sets for Kubernetes 1.31 to 1.35. kubeadm 1.36 removed it.
const DROPPED_GATE: &str = "ControlPlaneKubeletLocalMode: true";

/// Runs `kubeadm config validate` on the file's text.
///
/// kubeadm supports only its own release and the previous one. The validated copy therefore specifies kubeadm's
/// version, and omits [`DROPPED_GATE`]. `ClusterConfiguration::check` validates the original version.
pub(super) async fn validate(guest_vm: &GuestVm, text: &str) -> Result<(), Failure> {
    let own = output(guest_vm, &["version", "--output", "short"]).await?;
    let documents = Documents::parse(text)?;
    let copy = match &documents.cluster {
        Some((cluster, _)) if semver::Version::parse(own.text.trim().trim_start_matches('v')).is_ok() => {
            let version = format!("kubernetesVersion: {}", own.text.trim());
            let is_version = |line: &str| {
                line.trim_start().starts_with("kubernetesVersion:")
                    && line.contains(&cluster.kubernetes_version)
            };
            text.lines()
                .filter(|line| line.trim() != DROPPED_GATE)
                .map(|line| if is_version(line) { version.clone() } else { line.to_owned() } + "\n")
                .collect()
        }
        _ => text.to_owned(),
    };
    guest_vm.disk.write(COPY, &copy)?;
    let path = guest_vm.disk.path(COPY).display().to_string();
    let verdict = output(guest_vm, &["config", "validate", "--config", &path]).await?;
    let _ = std::fs::remove_file(guest_vm.disk.path(COPY));
    if verdict.success {
        return Ok(());
    }
    let token = documents.join.and_then(|join| join.discovery.bootstrap_token).map(|found| found.token);
    let message =
        verdict.text.lines().find(|line| line.starts_with("error:")).unwrap_or("error: refused").to_owned();
    let message = token
        .filter(|token| !token.is_empty())
        .map_or(message.clone(), |token| message.replace(&token, "(token)"));
    Err(Failure::new(Reason::KubeadmConfig, format!("kubeadm config validate: {message}")))
}

struct Output {
    success: bool,
    text: String,
}

async fn output(guest_vm: &GuestVm, arguments: &[&str]) -> Result<Output, Failure> {
    let output = tokio::process::Command::new(&guest_vm.programs.kubeadm)
        .args(arguments)
        .env(plane::stack::MARK, guest_vm.stack.id())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| Failure::host("run kubeadm", &error))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text += &String::from_utf8_lossy(&output.stderr);
    Ok(Output { success: output.status.success(), text })
}
