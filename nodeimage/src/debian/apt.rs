//! Resolves package names and their dependencies with apt, independently of this machine's apt state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::fmt::rfc2822;

use super::lock::{DebianPackage, Lock};
use crate::command::run;
use crate::error::{Error, IoContext, Result};
use crate::os::OperatingSystem;
use crate::sources;

const KEYRINGS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Downloads Debian's current indexes and resolves the packages for an image.
pub(crate) fn resolve(os: &OperatingSystem, go: String, work: &Path) -> Result<Lock> {
    let apt = Apt::set_up(os, &work.join("apt"))?;
    run(apt.command("apt-get").args(["-qq", "update"]), "read Debian's lists of packages")?;
    let epoch = apt.newest_index()?;
    let closure = |essential: &[&str], list| apt.closure(essential, &sources::packages(list));
    Ok(Lock {
        os: os.name.to_owned(),
        go,
        epoch,
        node: closure(&["?essential"], "node")?,
        containers: closure(&[], "containers")?,
        builder: closure(&[], "builder")?,
    })
}

/// Runs apt with a separate configuration and state, as if no packages were installed.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn set_up(os: &OperatingSystem, folder: &Path) -> Result<Self> {
        if !Path::new(KEYRINGS).is_file() {
            return Err(Error::Host(format!("{KEYRINGS} is missing; install debian-archive-keyring")));
        }
        for part in ["etc", "state/lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).doing("make", &part)?;
        }
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).doing("write", &path)
        };
        write("status", String::new())?;
        let suite = os.suite;
        let sources = [
            ("debian", suite.to_owned()),
            ("debian", format!("{suite}-updates")),
            ("debian-security", format!("{suite}-security")),
        ];
        let line = |(archive, suite): &(&str, String)| {
            format!("deb [signed-by={KEYRINGS}] http://deb.debian.org/{archive} {suite} main\n")
        };
        write("sources.list", sources.iter().map(line).collect())?;
        let folder_text = folder.display();
        write(
            "apt.conf",
            format!(
                "Dir::Etc \"{folder_text}/etc\";\nDir::Etc::SourceList \"{folder_text}/sources.list\";\n\
                 Dir::Etc::SourceParts \"/dev/null\";\nDir::State \"{folder_text}/state\";\n\
                 Dir::State::Status \"{folder_text}/status\";\nDir::Cache \"{folder_text}/cache\";\n\
                 APT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\nAPT::Install-Recommends \"false\";\n\
                 APT::Sandbox::User \"\";\nAcquire::Languages \"none\";\nAcquire::ForceHash \"SHA256\";\n"
            ),
        )?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf")).env("LC_ALL", "C");
        command
    }

    /// Returns the packages that apt would install for `essential` and `names`, including dependencies, in a possible
    /// install order. `essential` contains apt patterns, such as `?essential`.
    fn closure(&self, essential: &[&str], names: &[&str]) -> Result<Vec<DebianPackage>> {
        let mut command = self.command("apt-get");
        command.args(["-qq", "-y", "--print-uris", "install"]).args(essential).args(names);
        let lines = run(&mut command, "find the packages of the image in Debian's archive")?;
        let packages: Option<Vec<_>> =
            lines.lines().filter(|line| line.starts_with('\'')).map(package).collect();
        packages.filter(|packages| !packages.is_empty()).ok_or_else(|| Error::Command {
            what: "find the packages of the image in Debian's archive".to_owned(),
            reason: format!("cannot parse the list of apt-get; it begins with {:?}", lines.lines().next()),
        })
    }

    /// Returns the date in the newest index, in seconds since 1970.
    fn newest_index(&self) -> Result<i64> {
        let lists = self.folder.join("state/lists");
        let mut newest = None;
        for entry in fs::read_dir(&lists).doing("read", &lists)? {
            let path = entry.doing("read", &lists)?.path();
            if path.to_string_lossy().ends_with("_InRelease") {
                let text = fs::read_to_string(&path).doing("read", &path)?;
                newest = newest.max(date(&text));
            }
        }
        newest.ok_or_else(|| Error::Command {
            what: "read Debian's lists of packages".to_owned(),
            reason: "none of them has a date".to_owned(),
        })
    }
}

/// Parses a line that `apt-get --print-uris` prints: quoted URI, file, size, digest. Returns `None` if the line has
/// another format or the digest isn't SHA-256.
fn package(line: &str) -> Option<DebianPackage> {
    let mut fields = line.split_whitespace();
    let uri = fields.next()?.strip_prefix('\'')?.strip_suffix('\'')?;
    let sha256 = fields.nth(2)?.strip_prefix("SHA256:")?;
    Some(DebianPackage { uri: uri.to_owned(), sha256: sha256.to_owned() })
}

fn date(index: &str) -> Option<i64> {
    let text = index.lines().find_map(|line| line.strip_prefix("Date: "))?;
    // Debian writes "UTC", but the RFC 2822 parser expects a numeric offset.
    let text = text.trim().replace("UTC", "+0000");
    rfc2822::parse(&text).ok().map(|time| time.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_package_and_its_digest() {
        let digest = "a8902cb6d8650134764a25fb80aec8589d858ef71ece1680a62e84816c37bb04";
        let uri = "http://deb.debian.org/debian/pool/main/d/dash/dash_0.5.12-12_amd64.deb";
        let line = format!("'{uri}' dash_0.5.12-12_amd64.deb 98504 SHA256:{digest}");
        let found = package(&line).unwrap();
        assert_eq!((found.uri.as_str(), found.sha256.as_str()), (uri, digest));
        assert_eq!(package(&line.replace("SHA256", "MD5Sum")), None);
    }

    #[test]
    fn an_index_has_a_date() {
        let index =
            "Origin: Debian\nSuite: stable\nDate: Sat, 12 Sep 2026 07:55:41 UTC\nAcquire-By-Hash: yes\n";
        assert_eq!(date(index), Some(1_789_199_741));
        assert_eq!(date("Origin: Debian\n"), None);
    }
}
