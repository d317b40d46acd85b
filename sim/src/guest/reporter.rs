//! Simulates the end of cloud-init's first run: cloud-init's output and result file, and the reporter script from the vendordata.
//!
//! A guest doesn't run arbitrary scripts on this host. It runs only the reporter script that real nodes get, on the
//! guest's disk and with a `vmware-rpctool` that writes files. A guest with other vendordata doesn't report.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use cloudinit::BOOTSTRAP_REPORTER;
use plane::StackIdentity;

use super::cloud_config::CloudConfigFile;
use super::datasource::Seed;
use super::disk::Disk;
use super::failure::{Failure, Reason};

const SCRIPT: &str = "/var/lib/cloud/instance/scripts/vendor/part-001";
const OUTPUT: &str = "/var/log/cloud-init-output.log";
const RESULT: &str = "/run/cloud-init/result.json";
const WRITTEN: &str = "/run/guestinfo";
const TIMEOUT: Duration = Duration::from_secs(30);
/// A replacement for `vmware-rpctool`. Its `info-set` writes the value to a file with the key's name.
const RPCTOOL: &str =
    "#!/bin/sh\nrest=${1#info-set }\nprintf %s \"${rest#* }\" >\"$GUESTINFO/${rest%% *}\"\n";

/// Returns the guestinfo values that a guest reports after its boot has ended. `failure` is set if the boot failed.
pub(super) async fn report(
    disk: &Disk,
    stack: &StackIdentity,
    seed: &Seed,
    failure: Option<&Failure>,
) -> Result<BTreeMap<String, Option<String>>, Failure> {
    if seed.vendordata.as_deref() != Some(BOOTSTRAP_REPORTER.as_bytes()) {
        return Ok(BTreeMap::new());
    }
    disk.write(OUTPUT, output(failure))?;
    disk.write(RESULT, "{\"v1\": {\"errors\": []}}")?;
    disk.make_folder(WRITTEN)?;
    disk.write(SCRIPT, BOOTSTRAP_REPORTER)?;
    disk.write_file(&CloudConfigFile {
        path: "/usr/bin/vmware-rpctool".to_owned(),
        content: RPCTOOL.to_owned(),
        permissions: Some("0755".to_owned()),
        ..CloudConfigFile::default()
    })?;
    run(disk, stack).await?;
    written(disk).map_err(|error| Failure::host("read what the reporter wrote", &error))
}

async fn run(disk: &Disk, stack: &StackIdentity) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::host("run the reporter", error);
    let mut script = tokio::process::Command::new("/bin/sh");
    script
        .arg(disk.path(SCRIPT))
        .arg("watch")
        .env_clear()
        .env(plane::stack::MARK, stack.id())
        .env("BOOTSTRAP_ROOT", disk.root())
        .env("GUESTINFO", disk.path(WRITTEN))
        .env("PATH", format!("{}:/usr/bin:/bin", disk.path("/usr/bin").display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(TIMEOUT, script.status()).await.map_err(|late| failed(&late))?;
    ended.map(drop).map_err(|error| failed(&error))
}

fn written(disk: &Disk) -> std::io::Result<BTreeMap<String, Option<String>>> {
    let mut keys = BTreeMap::new();
    for file in fs::read_dir(disk.path(WRITTEN))? {
        let file = file?;
        let value = fs::read_to_string(file.path())?;
        keys.insert(file.file_name().to_string_lossy().into_owned(), Some(value));
    }
    Ok(keys)
}

/// Returns the output that cloud-init and kubeadm print on a node, including secrets.
fn output(failure: Option<&Failure>) -> String {
    let Some(Failure { reason, message, .. }) = failure else {
        return "Your Kubernetes control-plane has initialized successfully!\n\nkubeadm join 10.0.0.1:6443 --token \
                abcdef.0123456789abcdef \\\n"
            .to_owned();
    };
    let phase = match reason {
        Reason::Preflight => {
            return format!(
                "[preflight] Running pre-flight checks\n[preflight] Some fatal errors occurred:\n\t{message}\n[preflight] If \
                 you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`\nerror: \
                 error execution phase preflight: preflight checks failed\nTo see the stack trace of this error execute \
                 with --v=5 or higher\n"
            );
        }
        Reason::CertificateMissing | Reason::Certificate => "certs",
        Reason::Etcd => "etcd",
        Reason::ApiServer => "wait-control-plane",
        Reason::Discovery | Reason::CaHash | Reason::BootstrapToken => "preflight",
        Reason::Registration => "kubelet-start",
        _ => return format!("{message}\n"),
    };
    format!("[preflight] Running pre-flight checks\nerror: error execution phase {phase}: {message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reported(vendordata: &str, failure: Option<Failure>) -> BTreeMap<String, Option<String>> {
        let folder = tempfile::tempdir().unwrap();
        let stack = StackIdentity::ephemeral().unwrap();
        let disk = Disk::at(folder.path().join("vm")).unwrap();
        disk.boot().unwrap();
        disk.write("/run/kubeadm/kubeadm.yaml", "").unwrap();
        if failure.is_none() {
            disk.write("/run/cluster-api/bootstrap-success.complete", "success\n").unwrap();
        }
        let mut seed = Seed::from_parts(b"instance-id: i", None).unwrap();
        seed.vendordata = Some(vendordata.into());
        let reported = report(&disk, &stack, &seed, failure.as_ref()).await.unwrap();
        let _ = fs::remove_dir_all(stack.folder());
        reported
    }

    #[tokio::test]
    async fn a_guest_reports_with_the_script_that_it_was_given() {
        let condition = "guestinfo.vmservice.bootstrap.condition";
        let port = || Failure::preflight("Port-10259", "Port 10259 is in use");
        let failed = reported(BOOTSTRAP_REPORTER, Some(port())).await;
        let expected = "false,BootstrapFailed,kubeadm init failed: Port 10259 is in use";
        assert_eq!(failed[condition].as_deref(), Some(expected));
        assert!(failed["guestinfo.vmservice.bootstrap.log"].as_deref().unwrap().contains("[preflight]"));
        let ended = reported(BOOTSTRAP_REPORTER, None).await;
        assert_eq!(ended, BTreeMap::from([(condition.to_owned(), Some("true".to_owned()))]));
        assert!(reported("", Some(port())).await.is_empty());
        assert!(reported("#!/bin/sh\ntouch /tmp/anything\n", Some(port())).await.is_empty());
    }
}
