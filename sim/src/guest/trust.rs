//! The CAs that a node trusts. A certificate file takes effect only after a program of the operating system has
//! collected it and containerd has been restarted.

use std::fs;

use super::disk::Disk;
use super::failure::{Failure, Reason};

/// Members of the Red Hat family: the IDs in `/etc/os-release`, and the names in image names.
const RED_HAT: [&str; 10] =
    ["rhel", "rocky", "rockylinux", "centos", "almalinux", "ol", "oraclelinux", "amzn", "amazon", "fedora"];
/// The paths to the certificate bundles on the different operating systems. Programs read the bundles when they start.
const COLLECTED: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
/// The file with the certificates that containerd read when it last started. Each boot writes this file again.
const READ: &str = "/run/containerd/ca-certificates.crt";
const OS_RELEASE: &str = "/etc/os-release";

/// A program that collects certificates into a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Photon's `rehash_ca_certificates.sh`.
    Photon,
    /// `update-ca-certificates` on Debian and Ubuntu.
    Debian,
    /// `update-ca-trust` on the Red Hat family.
    RedHat,
}

impl Collector {
    fn name(self) -> &'static str {
        match self {
            Self::Photon => "rehash_ca_certificates.sh",
            Self::Debian => "update-ca-certificates",
            Self::RedHat => "update-ca-trust",
        }
    }

    /// Returns true if the operating system with this ID includes the program.
    fn is_on(self, id: &str) -> bool {
        match self {
            Self::Photon => id == "photon",
            Self::Debian => ["debian", "ubuntu"].contains(&id),
            Self::RedHat => RED_HAT.contains(&id),
        }
    }

    /// Returns the bundle that the program writes.
    fn collected(self) -> &'static str {
        match self {
            Self::Photon | Self::Debian => COLLECTED[0],
            Self::RedHat => COLLECTED[1],
        }
    }

    /// Returns the folder from which the program collects certificates, and the extension of the certificate files.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Self::Photon => ("/etc/ssl/certs", "pem"),
            Self::Debian => ("/usr/local/share/ca-certificates", "crt"),
            Self::RedHat => ("/etc/pki/ca-trust/source/anchors", "pem"),
        }
    }
}

impl Disk {
    /// Records the node image's operating system: `photon`, `ubuntu`, `debian`, or a member of the Red Hat family.
    pub fn install_os(&self, name: &str) -> Result<(), Failure> {
        self.write(OS_RELEASE, format!("ID={name}\n"))
    }

    /// Runs a program that collects certificates. Fails if the operating system is known and doesn't include the program.
    pub(super) fn collect_authorities(&self, collector: Collector) -> Result<(), Failure> {
        let release = self.read(OS_RELEASE);
        let id = release.as_deref().and_then(|text| text.trim().strip_prefix("ID="));
        if id.is_some_and(|id| !collector.is_on(id)) {
            return Err(Failure::new(Reason::Command, format!("{}: command not found", collector.name())));
        }
        let (folder, ending) = collector.source();
        let mut files: Vec<_> = fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|found| found == ending))
            .collect();
        files.sort();
        let texts: Vec<_> = files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        self.write(collector.collected(), texts.join("\n"))
    }

    /// Makes containerd trust the collected certificates, as if it had been restarted.
    pub(super) fn read_authorities(&self) -> Result<(), Failure> {
        let collected: String = COLLECTED.iter().filter_map(|path| self.read(path)).collect();
        self.write(READ, collected)
    }

    /// Returns true if containerd trusts certificates that the CA with this certificate (PEM) has signed.
    pub(super) fn containerd_trusts(&self, authority: &str) -> bool {
        self.read(READ).is_some_and(|read| read.contains(authority.trim()))
    }
}

#[cfg(test)]
mod tests {
    use crate::guest::commands::line;
    use crate::guest::sample;

    #[test]
    fn an_authority_counts_once_it_is_collected_and_containerd_is_restarted() {
        for (os, command, other, file) in [
            ("photon", "rehash_ca_certificates.sh", "update-ca-certificates", "/etc/ssl/certs/a.pem"),
            (
                "debian",
                "update-ca-certificates",
                "rehash_ca_certificates.sh",
                "/usr/local/share/ca-certificates/a.crt",
            ),
            (
                "rockylinux",
                "update-ca-trust",
                "update-ca-certificates",
                "/etc/pki/ca-trust/source/anchors/a.pem",
            ),
            (
                "rhel",
                "update-ca-trust extract",
                "rehash_ca_certificates.sh",
                "/etc/pki/ca-trust/source/anchors/a.pem",
            ),
        ] {
            let (_folder, disk) = sample::disk();
            disk.install_os(os).unwrap();
            disk.boot().unwrap();
            let run = |text: &str| line(text).unwrap().iter().try_for_each(|command| command.run(&disk));
            disk.write(file, "authority a\n").unwrap();
            run("systemctl restart containerd").unwrap();
            assert!(!disk.containerd_trusts("authority a"), "{os}: nothing has collected it");
            assert!(run(other).unwrap_err().message.contains("command not found"));
            run(command).unwrap();
            assert!(!disk.containerd_trusts("authority a"), "{os}: containerd has not read it");
            run("systemctl restart containerd").unwrap();
            assert!(disk.containerd_trusts("authority a") && !disk.containerd_trusts("authority b"));
            disk.boot().unwrap();
            assert!(disk.containerd_trusts("authority a"), "{os}: it starts with each boot");
        }
        let (_folder, disk) = sample::disk();
        disk.install_os("sles").unwrap();
        for command in ["rehash_ca_certificates.sh", "update-ca-certificates", "update-ca-trust"] {
            let outcome = line(command).unwrap()[0].run(&disk);
            assert!(outcome.unwrap_err().message.contains("command not found"), "{command}");
        }
    }
}
