//! Tests for the reporter script, run by `sh` with a temporary root folder and a `vmware-rpctool` that writes files.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use cloudinit::BOOTSTRAP_REPORTER;
use tempfile::TempDir;

const SUCCESS: &str = "run/cluster-api/bootstrap-success.complete";
const FINISHED: &str = "run/cloud-init/result.json";
const OUTPUT: &str = "var/log/cloud-init-output.log";
const INIT: &str = "run/kubeadm/kubeadm.yaml";
const JOIN: &str = "run/kubeadm/kubeadm-join-config.yaml";

/// The output of kubeadm if the scheduler's port is in use.
const PORT_IN_USE: &str = "[init] Using Kubernetes version: v1.36.3
[preflight] Running pre-flight checks
\t[WARNING Hostname]: hostname \"cp-0\" could not be reached
[preflight] Some fatal errors occurred:
\t[ERROR Port-10259]: Port 10259 is in use
\t[ERROR Port-10259]: Port 10259 is in use
[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`
error: error execution phase preflight: preflight checks failed
To see the stack trace of this error execute with --v=5 or higher
2026-11-23 00:00:00,000 - cc_scripts_user.py[WARNING]: Failed to run module scripts_user (scripts in /var/lib/cloud)
Cloud-init v. 25.1.4 finished at Mon, 23 Nov 2026 00:00:00 +0000. Datasource DataSourceVMware.  Up 61.80 seconds
";

const RPCTOOL: &str = r#"#!/bin/sh
rest=${1#info-set }
printf '%s' "${rest#* }" >"$RPC/${rest%% *}"
"#;

struct Node {
    root: TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self { root: tempfile::tempdir().unwrap() };
        node.write("reporter", BOOTSTRAP_REPORTER);
        node.write("rpc/.keep", "");
        node.program("vmware-rpctool", RPCTOOL);
        node.program("modprobe", "#!/bin/sh\n");
        node.program("df", "#!/bin/sh\n");
        node
    }

    fn program(&self, name: &str, script: &str) {
        let path = format!("bin/{name}");
        self.write(&path, script);
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn run_as(&self, name: &str, arguments: &[&str]) {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let run = Command::new("sh")
            .arg(self.path(name))
            .args(arguments)
            .envs([("BOOTSTRAP_ROOT", self.root.path()), ("RPC", &self.path("rpc"))])
            .envs([("PATH", path.as_str()), ("BOOTSTRAP_INTERVAL", "1")])
            .envs([("BOOTSTRAP_SLOW", "0"), ("BOOTSTRAP_LIMIT", "1")])
            .output()
            .unwrap();
        assert!(run.status.success() && run.stderr.is_empty() && run.stdout.is_empty(), "{run:?}");
    }

    /// Runs the reporter and returns the condition and the log.
    fn report(&self) -> (String, String) {
        self.run_as("reporter", &["watch"]);
        (self.guestinfo("condition"), self.guestinfo("log"))
    }

    fn guestinfo(&self, key: &str) -> String {
        let key = format!("rpc/guestinfo.vmservice.bootstrap.{key}");
        fs::read_to_string(self.path(&key)).unwrap_or_default()
    }

    /// Creates a node whose boot ended without success. `output` is the boot output, and `config` the path of the
    /// kubeadm configuration file.
    fn ended(output: &str, config: &str) -> Self {
        let node = Self::new();
        node.write(FINISHED, "{}");
        node.write(config, "");
        node.write(OUTPUT, output);
        node
    }

    /// Returns the condition and the log that a node reports if its boot ended without success.
    fn failed(output: &str, config: &str) -> (String, String) {
        Self::ended(output, config).report()
    }
}

#[test]
fn success_is_one_word() {
    let node = Node::new();
    node.write(FINISHED, "{}");
    node.write(SUCCESS, "success");
    node.write(OUTPUT, "kubeadm join --token abcdef.0123456789abcdef");
    assert_eq!(node.report(), ("true".into(), String::new()));
}

#[test]
fn a_failure_names_its_cause() {
    for (output, config, expected) in [
        (PORT_IN_USE, INIT, "kubeadm init failed: Port 10259 is in use"),
        (
            "[preflight] Running pre-flight checks\nerror: error execution phase preflight: couldn't validate the \
             identity of the API Server: timed out\n",
            JOIN,
            "kubeadm join failed: error execution phase preflight: couldn't validate the identity of the API Server: timed out",
        ),
        (
            "[kubelet-check] The kubelet is not healthy after 4m0.0s\n\nerror execution phase wait-control-plane: failed\n",
            INIT,
            "kubeadm init failed: error execution phase wait-control-plane: failed; The kubelet is not healthy after 4m0.0s",
        ),
        (
            "tar: x: Cannot write: No such file\ncp: error writing '/a': no space left on device\nerror execution phase certs: failed\n",
            INIT,
            "kubeadm init failed: error execution phase certs: failed; cp: error writing '/a': no space left on device",
        ),
        (
            "W0101 00:00:14.539678     716 certs.go:474] WARNING: etcd/ca: the certificate has expired: NotAfter\n\
             error: error execution phase certs: failed\n",
            INIT,
            "kubeadm init failed: error execution phase certs: failed; WARNING: etcd/ca: the certificate has expired: NotAfter",
        ),
        (
            "/var/lib/cloud/instance/scripts/runcmd: 7: kubeadm: not found\n",
            JOIN,
            "kubeadm join failed: /var/lib/cloud/instance/scripts/runcmd: 7: kubeadm: not found",
        ),
        ("agent: no such option\n", "other", "the bootstrap failed: agent: no such option"),
        ("", INIT, "kubeadm init failed"),
    ] {
        let (condition, _) = Node::failed(output, config);
        assert_eq!(condition, format!("false,BootstrapFailed,{expected}"));
    }
}

#[test]
fn a_long_text_does_not_push_its_explanation_out() {
    let output = format!("the certificate has expired\nerror: {}\n", "word ".repeat(400));
    let (condition, _) = Node::failed(&output, INIT);
    assert!(condition.ends_with("; the certificate has expired") && condition.len() < 500, "{condition}");
}

#[test]
fn what_kubeadm_does_not_say_is_looked_for() {
    let node = Node::ended("error: error execution phase wait-control-plane: failed\n", INIT);
    node.program(
        "df",
        "#!/bin/sh\necho Filesystem 1024-blocks Used Available Capacity Mounted on\n\
         echo /dev/sda2 20000000 19990000 10000 100% /\necho /dev/sdb1 8000000 1000 7999000 1% /var/lib/containerd\n\
         echo /dev/sda2 20000000 19990000 10000 100% /\n",
    );
    node.program(
        "modprobe",
        "#!/bin/sh\n[ $2 = br_netfilter ] || echo modprobe: FATAL: Module $2 not found in directory /lib/modules/6.12 >&2\n",
    );
    let says = "kubeadm init failed: error execution phase wait-control-plane: failed; no space left on device: /; \
                Module overlay not found";
    assert_eq!(node.report().0, format!("false,BootstrapFailed,{says}"));
}

#[test]
fn secrets_stay_in_the_guest() {
    let pem = "MIIEpAIBAAKCAQEA7bq+9Xl2kq0Z/4o1q2w3e4r5t6y7u8i9o0pAaSsDdFfGgHhJ";
    let hex = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl";
    let secrets =
        [pem, hex, jwt, "abcdef.0123456789abcdef", "hunter2", "c2VjcmV0", "opensesame", "tailofkey"];
    let output = format!(
        "{pem}\ntailofkey==\n-----END RSA PRIVATE KEY-----\n\
         -----BEGIN RSA PRIVATE KEY-----\n{pem}\nshort==\n-----END RSA PRIVATE KEY-----\n\
         kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef \\\n\
         \t--discovery-token-ca-cert-hash sha256:{hex} \\\n\
         \t--control-plane --certificate-key {hex}\n\
         Authorization: Bearer {jwt}\nproxy http://me:hunter2@proxy.example:3128/ refused\n\
         key {pem}, value\nMY_PASSWORD=hunter2 token: c2VjcmV0 \"password\": \"opensesame\" --password opensesame\n\
         \x1b[31m[ERROR ImagePull]: failed to pull image registry.example/kube-apiserver:v1.36.3: \
         token=hunter2 is not valid\x1b[0m\n"
    );
    let (condition, log) = Node::failed(&output, INIT);
    for secret in secrets {
        assert!(!log.contains(secret) && !condition.contains(secret), "{secret} is in {condition}\n{log}");
    }
    let message =
        "failed to pull image registry.example/kube-apiserver:v1.36.3: token=[removed] is not valid";
    assert_eq!(condition, format!("false,BootstrapFailed,kubeadm init failed: {message}"));
    assert!(log.contains("http://[removed]@proxy.example:3128/ refused"), "{log}");
    assert!(log.contains("kubeadm join 10.0.0.1:6443 --token [removed]"), "{log}");
}

#[test]
fn what_is_reported_is_short_and_printable() {
    let noise = format!("\x07{}\tü\r\n", "word ".repeat(400));
    let (condition, log) = Node::failed(&format!("{}{PORT_IN_USE}", noise.repeat(300)), INIT);
    assert_eq!(condition, "false,BootstrapFailed,kubeadm init failed: Port 10259 is in use");
    assert!(log.len() <= 4096 && log.lines().count() > 5, "{}", log.len());
    assert!(log.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{log}");
    let (condition, _) = Node::failed(&format!("error: {}\n", "word ".repeat(400)), INIT);
    assert!(condition.len() < 500, "{condition}");
}

#[test]
fn a_boot_that_takes_long_is_reported_before_it_ends() {
    let node = Node::new();
    node.write(INIT, "");
    node.write(OUTPUT, "[preflight] Pulling images\n");
    let says = "kubeadm init has not ended after 0 s. Last output: [preflight] Pulling images";
    assert_eq!(node.report().0, format!("false,BootstrapInProgress,{says}"));
}

#[test]
fn a_later_boot_repeats_the_report() {
    let node = Node::new();
    node.write("var/lib/cloud/scripts/per-boot/.keep", "");
    node.write(SUCCESS, "success");
    node.run_as("reporter", &[]);
    let condition = node.path("rpc/guestinfo.vmservice.bootstrap.condition");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while node.guestinfo("condition") != "true"
        || !node.path("var/lib/cloud/instance/bootstrap-condition").exists()
    {
        assert!(std::time::Instant::now() < deadline, "nothing is reported in the background");
        std::thread::yield_now();
    }
    fs::remove_file(&condition).unwrap();
    node.run_as("var/lib/cloud/scripts/per-boot/bootstrap-report", &[]);
    assert_eq!(node.guestinfo("condition"), "true");

    fs::remove_file(&condition).unwrap();
    fs::remove_dir_all(node.path("var/lib/cloud/instance")).unwrap();
    node.run_as("var/lib/cloud/scripts/per-boot/bootstrap-report", &[]);
    assert_eq!(node.guestinfo("condition"), "", "another instance, made from an image of this one");
}

#[test]
fn a_guest_without_the_tools_does_nothing() {
    let node = Node::new();
    node.write(FINISHED, "{}");
    node.write("var/lib/cloud/scripts/per-boot/.keep", "");
    fs::remove_file(node.path("bin/vmware-rpctool")).unwrap();
    node.run_as("reporter", &[]);
    assert!(!node.path("var/lib/cloud/scripts/per-boot/bootstrap-report").exists());
    assert!(!node.path("var/lib/cloud/instance").exists());
}
