//! The programs' logs: of their pods, and of the processes of an embedded control plane.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};

use super::parts::Parts;
use super::source::{CONTROLLER_NAMESPACES, Pages, Unread, answer};

/// So much of the end of each log is taken.
const MAX_LOG: usize = 2 << 20;
/// So much of a pod's log is asked for.
const MAX_ASKED: usize = 16 << 20;
const MAX_LINES: i64 = 20_000;
/// Whose logs are taken of an embedded control plane and a simulated site.
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

impl<W: Write> Parts<'_, W> {
    /// Writes the logs of all containers of the programs' pods, and of those that ended before.
    pub async fn write_pod_logs(&mut self) -> Result<()> {
        for namespace in CONTROLLER_NAMESPACES {
            let api: Api<Pod> = Api::namespaced(self.source.client.clone(), namespace);
            let mut pages = Pages::default();
            // What can't be listed is reported where the objects are read.
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
                    // A pod that is gone is no kind that is not served.
                    Err(Unread::NotServed) => {
                        self.contents.miss(&path, None, &Unread::Failed("no longer there".to_owned()));
                    }
                    Err(error) => self.contents.miss(&path, None, &error),
                }
            }
        }
        Ok(())
    }

    /// Writes the logs of an embedded control plane, where the kubeconfig file is in its folder.
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

/// The end of a log in whole lines, and how many bytes before it are left out: of a line that is cut, a secret could
/// be left that is not recognized any more.
fn whole_lines(log: &str, is_cut: bool) -> (&str, usize) {
    let from = log.ceil_char_boundary(log.len().saturating_sub(MAX_LOG));
    let from =
        if from == 0 && !is_cut { 0 } else { log[from..].find('\n').map_or(log.len(), |end| from + end + 1) };
    (&log[from..], from)
}

/// The log without the line that `limit` has cut, if it has.
fn finished_lines(log: &str, limit: usize) -> &str {
    if log.len() < limit { log } else { &log[..log.rfind('\n').map_or(0, |end| end + 1)] }
}

/// The last bytes of a file, and how many are before them.
fn read_end(path: &Path) -> Result<(String, u64)> {
    let reading = || format!("cannot read {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    let size = file.metadata().with_context(reading)?.len();
    let skipped = size.saturating_sub(MAX_LOG as u64);
    file.seek(SeekFrom::Start(skipped)).with_context(reading)?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG as u64).read_to_end(&mut bytes).with_context(reading)?;
    // A program that writes on leaves its last line unfinished.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Ok((String::from_utf8_lossy(&bytes[..end]).into_owned(), skipped))
}

/// The folder of logs beside the kubeconfig that an embedded control plane wrote.
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
