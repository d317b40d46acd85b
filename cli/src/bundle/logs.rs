//! Collects program logs from pods and from embedded control plane processes.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};

use super::parts::BundleContext;
use super::source::{CONTROLLER_NAMESPACES, Pages, Unread, answer};

/// The maximum log size in bytes. Only the end is kept.
const MAX_LOG: usize = 2 << 20;
/// The maximum size to request for a pod's log, in bytes.
const MAX_ASKED: usize = 16 << 20;
const MAX_LINES: i64 = 20_000;
/// The processes in an embedded control plane or simulated site that write logs.
const PROCESSES: [&str; 11] = [
    "capi-core",
    "capi-ipam-in-cluster",
    "capi-kubeadm-bootstrap",
    "capi-kubeadm-control-plane",
    "capw",
    "etcd",
    "gcm",
    "kube-apiserver",
    "kube-controller-manager",
    "vcsim",
    "vmop",
];

impl<W: Write> BundleContext<'_, W> {
    /// Writes all container logs in the program namespaces, including the previous run if a container restarted.
    pub async fn write_pod_logs(&mut self) -> Result<()> {
        for namespace in CONTROLLER_NAMESPACES {
            let api: Api<Pod> = Api::namespaced(self.source.client.clone(), namespace);
            let mut pages = Pages::default();
            // Ignore list errors: reading the pod objects reports them.
            while let Ok(Some(pods)) = pages.next(&api, 100).await {
                for pod in pods {
                    self.write_logs_of_pod(&api, namespace, &pod).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_logs_of_pod(&mut self, api: &Api<Pod>, namespace: &str, pod: &Pod) -> Result<()> {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        for container in containers {
            let before = (container.restart_count > 0).then_some(true);
            for previous in [Some(false), before].into_iter().flatten() {
                let suffix = if previous { ".previous" } else { "" };
                let path =
                    format!("namespaces/{namespace}/logs/{}/{}{suffix}.log", pod.name_any(), container.name);
                let params = LogParams {
                    container: Some(container.name.clone()),
                    previous,
                    tail_lines: Some(MAX_LINES),
                    limit_bytes: i64::try_from(MAX_ASKED).ok(),
                    since_seconds: self.since.and_then(|since| i64::try_from(since.as_secs()).ok()),
                    timestamps: true,
                    ..LogParams::default()
                };
                match answer(api.logs(&pod.name_any(), &params)).await {
                    Ok(log) => self.write_log(&path, finished_lines(&log, MAX_ASKED), 0)?,
                    // 404 means that the pod was deleted, not that the kind isn't served.
                    Err(Unread::NotServed) => {
                        self.contents.miss(&path, None, &Unread::Failed("no longer there".to_owned()));
                    }
                    Err(error) => self.contents.miss(&path, None, &error),
                }
            }
        }
        Ok(())
    }

    /// Writes an embedded control plane's logs if the kubeconfig file is in its folder.
    pub fn write_process_logs(&mut self, kubeconfig: Option<&Path>) -> Result<()> {
        let Some(folder) = log_folder(kubeconfig) else { return Ok(()) };
        for name in PROCESSES {
            let path = folder.join(format!("{name}.log"));
            if !path.is_file() {
                continue;
            }
            match read_end(&path) {
                Ok((log, skipped)) => self.write_log(&format!("processes/{name}.log"), &log, skipped)?,
                Err(error) => self.contents.miss_failed(&format!("the log of {name}"), None, &error),
            }
        }
        Ok(())
    }

    fn write_log(&mut self, path: &str, log: &str, skipped: u64) -> Result<()> {
        let (end, left_out) = whole_lines(log, skipped > 0);
        let left_out = skipped + left_out as u64;
        if left_out > 0 {
            self.contents.shorten(&format!("{path}: its first {left_out} bytes are left out"));
        }
        self.archive.add(path, self.scrubber.text(end))
    }
}

/// Returns the last whole lines of a log, and the number of bytes before them. `is_cut` means that `log` may begin in
/// the middle of a line. Truncated lines are dropped, because the scrubber might not recognize a secret in them.
fn whole_lines(log: &str, is_cut: bool) -> (&str, usize) {
    let from = log.ceil_char_boundary(log.len().saturating_sub(MAX_LOG));
    let from =
        if from == 0 && !is_cut { 0 } else { log[from..].find('\n').map_or(log.len(), |end| from + end + 1) };
    (&log[from..], from)
}

/// Removes the last line if `limit` may have truncated it.
fn finished_lines(log: &str, limit: usize) -> &str {
    if log.len() < limit { log } else { &log[..log.rfind('\n').map_or(0, |end| end + 1)] }
}

/// Reads the last [`MAX_LOG`] bytes of a file, without an unfinished last line. Returns them with the number of bytes
/// before them.
fn read_end(path: &Path) -> Result<(String, u64)> {
    let reading = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    let size = file.metadata().with_context(reading)?.len();
    let skipped = size.saturating_sub(MAX_LOG as u64);
    file.seek(SeekFrom::Start(skipped)).with_context(reading)?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG as u64).read_to_end(&mut bytes).with_context(reading)?;
    // The program may still be writing the last line.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Ok((String::from_utf8_lossy(&bytes[..end]).into_owned(), skipped))
}

/// Returns the log folder beside an embedded control plane's kubeconfig file (default: `KUBECONFIG`). Returns `None` if
/// the folder doesn't contain the API server's log.
fn log_folder(kubeconfig: Option<&Path>) -> Option<PathBuf> {
    let path =
        kubeconfig.map(Path::to_owned).or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from))?;
    let folder = path.parent()?.join("logs");
    folder.join("kube-apiserver.log").is_file().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_begins_with_a_whole_line() {
        let long = format!("{}\nlast\n", "x".repeat(MAX_LOG));
        assert_eq!(whole_lines(&long, false), ("last\n", MAX_LOG + 1));
        assert_eq!(whole_lines("a\nb\n", false), ("a\nb\n", 0));
        assert_eq!(whole_lines("the end of a line\nb\n", true), ("b\n", 18));
        assert_eq!(finished_lines("a\nunfinished", 12), "a\n");
        assert_eq!(finished_lines("a\nfinished", 12), "a\nfinished");
        let short = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(short.path(), "whole\nunfinished").unwrap();
        assert_eq!(read_end(short.path()).unwrap(), ("whole\n".to_owned(), 0));
    }
}
