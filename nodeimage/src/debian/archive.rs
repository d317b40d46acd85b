//! Downloads packages into the cache, unpacks them, and creates a local apt archive for the node's root file system.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use plane::digest::sha256_of;

use super::lock::{DebianPackage, Lock};
use crate::command::run;
use crate::error::{Error, IoContext, Result};
use crate::os::OperatingSystem;

const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// Returns the package cache folder and creates it if necessary. The cached files are named by digest.
fn cache() -> Result<PathBuf> {
    let folder = plane::tools::cache_folder()?.join("debian");
    fs::create_dir_all(&folder).doing("make", &folder)?;
    Ok(folder)
}

fn cached(folder: &Path, package: &DebianPackage) -> PathBuf {
    folder.join(format!("{}.deb", package.sha256))
}

/// Downloads the packages that aren't in the cache, and verifies their digests.
pub(crate) fn fetch(lock: &Lock) -> Result<()> {
    let folder = cache()?;
    let missing: BTreeMap<_, _> = lock
        .all()
        .filter(|package| !cached(&folder, package).is_file())
        .map(|package| (package.sha256.as_str(), package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let unfinished = |package: &DebianPackage| folder.join(format!("{}.unfinished", package.sha256));
    let mut command = Command::new(APT_HELPER);
    command.arg("-oAPT::Sandbox::User=").arg("download-file");
    for package in missing.values() {
        command.arg(&package.uri).arg(unfinished(package)).arg(format!("SHA256:{}", package.sha256));
    }
    run(&mut command, "fetch Debian's packages").map_err(|error| match error {
        Error::Command { what, reason } => Error::Command {
            what,
            reason: format!(
                "{reason}\nIf a package is not found (404), Debian's archive has replaced it: build without --lock"
            ),
        },
        other => other,
    })?;
    for package in missing.values() {
        let path = unfinished(package);
        if sha256_of(&path).doing("read", &path)? != package.sha256 {
            return Err(Error::Command {
                what: "fetch Debian's packages".to_owned(),
                reason: format!("the SHA-256 of {} is not {}", package.uri, package.sha256),
            });
        }
        fs::rename(&path, cached(&folder, package)).doing("rename", &path)?;
    }
    Ok(())
}

/// Unpacks packages into a folder, without configuring them.
pub(crate) fn unpack(packages: &[DebianPackage], into: &Path) -> Result<()> {
    let cache = cache()?;
    fs::create_dir_all(into).doing("make", into)?;
    // base-files comes first, because it contains the links from /bin to /usr/bin.
    let mut ordered: Vec<_> = packages.iter().collect();
    ordered.sort_by_key(|package| !package.file().starts_with("base-files_"));
    for package in ordered {
        let mut command = Command::new("dpkg-deb");
        command.arg("--extract").arg(cached(&cache, package)).arg(into);
        run(&mut command, &format!("unpack {}", package.file()))?;
    }
    Ok(())
}

/// Creates the files that configuring the builder's packages would create: users, the `awk` link, and an empty dpkg status.
pub(crate) fn prepare_builder(builder: &Path) -> Result<()> {
    for (from, to) in [("passwd.master", "etc/passwd"), ("group.master", "etc/group")] {
        let from = builder.join("usr/share/base-passwd").join(from);
        fs::copy(&from, builder.join(to)).doing("copy", &from)?;
    }
    let awk = builder.join("usr/bin/awk");
    symlink("mawk", &awk).doing("link", &awk)?;
    let dpkg = builder.join("var/lib/dpkg");
    fs::create_dir_all(&dpkg).doing("make", &dpkg)?;
    fs::write(dpkg.join("status"), "").doing("write", &dpkg)
}

/// Writes an apt archive that contains only these packages.
pub(crate) fn write_archive(packages: &[DebianPackage], os: &OperatingSystem, into: &Path) -> Result<()> {
    let cache = cache()?;
    fs::create_dir_all(into).doing("make", into)?;
    let mut index = String::new();
    for package in packages {
        let (from, to) = (cached(&cache, package), into.join(format!("{}.deb", package.sha256)));
        fs::copy(&from, &to).doing("copy", &from)?;
        let size = fs::metadata(&to).doing("read", &to)?.len();
        let mut command = Command::new("dpkg-deb");
        let control = run(command.arg("--field").arg(&to), &format!("read {}", package.file()))?;
        let digest = &package.sha256;
        let _ = write!(
            index,
            "{}\nFilename: ./{digest}.deb\nSize: {size}\nSHA256: {digest}\n\n",
            control.trim_end()
        );
    }
    let path = into.join("Packages");
    fs::write(&path, &index).doing("write", &path)?;
    let release = format!(
        "Suite: stable\nCodename: {}\nArchitectures: amd64\nSHA256:\n {} {} Packages\n",
        os.suite,
        sha256_of(&path).doing("read", &path)?,
        index.len()
    );
    let path = into.join("Release");
    fs::write(&path, release).doing("write", &path)
}
