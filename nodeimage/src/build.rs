//! Runs an image build from the request to the finished files.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::PathBuf;
use std::str::FromStr;

use jiff::{Timestamp, tz::TimeZone};
use plane::digest::sha256_of;
use plane::tools::{self, BuildProgress, Tool};

use crate::builder::Builder;
use crate::containers::{self, PROGRAMS};
use crate::contents;
use crate::debian::{self, Lock};
use crate::error::{Error, IoContext, Result};
use crate::os::OperatingSystem;
use crate::ova;
use crate::ovf::OvfDescriptor;
use crate::release::SupportedRelease;
use crate::sbom;
use crate::sources;
use crate::vmdk;

/// The disk size, which must equal the one in `steps/disk`.
const DISK_BYTES: u64 = 20480 << 20;
/// The work folder inside the output folder. It is removed at the end.
const WORK: &str = ".unfinished";

/// The options for a build.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The Kubernetes release, in a form that [`SupportedRelease::find`] accepts.
    pub kubernetes: String,
    /// The operating system, in a form that [`OperatingSystem::find`] accepts.
    pub os: String,
    /// The output folder. It is created if it doesn't exist.
    pub out: PathBuf,
    /// The lock file from an earlier build, to use the same packages. `None` selects the newest packages.
    pub lock: Option<PathBuf>,
    /// Additional container images for the node.
    pub preload: Vec<Preload>,
}

/// A source of additional container images for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preload {
    /// The upstream images for a management cluster: Cluster API's managers and the IPAM provider.
    Management,
    /// The images in an archive with an OCI layout or in Docker's format.
    Archive(PathBuf),
}

impl Preload {
    /// The string that parses to [`Preload::Management`].
    pub const MANAGEMENT: &'static str = "management";
}

impl FromStr for Preload {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(if text == Self::MANAGEMENT { Self::Management } else { Self::Archive(text.into()) })
    }
}

/// The result of a build.
#[derive(Debug)]
pub struct BuiltImage {
    /// The image name, which is also the prefix of all file names.
    pub name: String,
    /// The paths to the files. The last one is the checksum file.
    pub files: Vec<PathBuf>,
}

/// Builds an image. This blocks the thread, for many minutes on the first build.
pub fn build(request: &BuildRequest, progress: &dyn BuildProgress) -> Result<BuiltImage> {
    let release = SupportedRelease::find(&request.kubernetes)?;
    let os = OperatingSystem::find(&request.os)?;
    let archives = archives(&request.preload)?;
    let locked = request.lock.as_deref().map(|path| Lock::read(path, os.name)).transpose()?;
    fs::create_dir_all(&request.out).doing("make", &request.out)?;
    let out = fs::canonicalize(&request.out).doing("find", &request.out)?;
    let held = File::open(&out).doing("open", &out)?;
    if held.try_lock().is_err() {
        return Err(Error::Request(format!(
            "another build writes to {}: choose another folder",
            out.display()
        )));
    }
    let work = out.join(WORK);
    let builder = Builder::new(&work)?;
    // Remove what a killed build left behind.
    builder.remove_work()?;
    fs::create_dir_all(&work).doing("make", &work)?;
    let mut programs = release.tools().concat();
    let management = request.preload.contains(&Preload::Management);
    if management {
        programs.extend(tools::managers());
    }
    let build = Build { release, os, out, work, builder, programs, management, archives, progress };
    let image = build.make(locked);
    let removed = build.builder.remove_work();
    let image = image?;
    removed?;
    Ok(image)
}

/// Returns the absolute paths to the preloaded archives. Fails before the long build starts if one is missing.
fn archives(preload: &[Preload]) -> Result<Vec<PathBuf>> {
    let paths = preload.iter().filter_map(|preload| match preload {
        Preload::Management => None,
        Preload::Archive(path) => Some(path),
    });
    paths.map(|path| fs::canonicalize(path).doing("find the archive", path)).collect()
}

/// The input that all parts of a build share.
struct Build<'a> {
    release: &'static SupportedRelease,
    os: &'static OperatingSystem,
    out: PathBuf,
    work: PathBuf,
    builder: Builder,
    programs: Vec<&'static Tool>,
    /// True if [`Preload::Management`] was requested.
    management: bool,
    archives: Vec<PathBuf>,
    progress: &'a dyn BuildProgress,
}

impl Build<'_> {
    fn make(&self, locked: Option<Lock>) -> Result<BuiltImage> {
        let programs = tools::ensure_all(&self.programs, self.progress)?;
        let lock = self.lock(locked)?;
        let epoch = epoch(&lock)?;
        self.progress.note(&format!("fetching and unpacking {} packages", lock.all().count()));
        self.unpack(&lock)?;
        self.place(&programs)?;
        let mut parts = contents::go_modules(
            &self.programs,
            &lock.go,
            &self.work.join("files").join(contents::GO_LICENCES),
        )?;
        self.progress.note("installing the node's root file system");
        self.builder.step("root", epoch, "make the node's root file system")?;
        parts.extend(contents::debian_packages(
            &lock,
            &self.work.join("root"),
            &self.work.join("containers"),
        )?);
        self.progress.note("making the disk");
        self.builder.step("disk", epoch, "make the disk")?;
        let version = version(self.release, epoch);
        let name = format!("{}-amd64-{}", self.os.name, version.replace('+', "---"));
        let list = sbom::document(&name, &version, "OPERATING-SYSTEM", &parts, epoch);
        self.finish(&name, &version, &lock, &format!("{list:#}\n"), epoch)
    }

    /// Returns `locked` with the current Go version, or a lock for the newest packages. Reports in the progress output
    /// if the Go version has changed.
    fn lock(&self, locked: Option<Lock>) -> Result<Lock> {
        let go = tools::go_version()?;
        match locked {
            Some(lock) if lock.go != go => {
                self.progress.note(&format!(
                    "the image of the lock file was built with {}, but this build uses {go}, so the images will differ",
                    lock.go
                ));
                Ok(Lock { go, ..lock })
            }
            Some(lock) => Ok(lock),
            None => {
                self.progress.note("reading Debian's lists of packages");
                debian::resolve(self.os, go, &self.work)
            }
        }
    }

    fn unpack(&self, lock: &Lock) -> Result<()> {
        debian::fetch(lock)?;
        let builder = self.work.join("builder");
        debian::unpack(&lock.builder, &builder)?;
        debian::prepare_builder(&builder)?;
        debian::unpack(&lock.containers, &self.work.join("containers"))?;
        debian::write_archive(&lock.node, self.os, &self.work.join("archive"))
    }

    /// Copies programs, files and image definitions to the paths where the steps expect them.
    fn place(&self, programs: &BTreeMap<&'static str, PathBuf>) -> Result<()> {
        sources::write(&self.work, &containers::pause(self.release))?;
        for (name, path) in programs {
            let in_images = format!("containers/{PROGRAMS}/{name}");
            let places = match (*name, containers::place_on_node(name)) {
                ("preload", _) => vec!["bin/preload".to_owned()],
                // The plugin is installed on the node and in the image from which flannel's manifest copies it.
                ("flannel", Some(place)) => vec![format!("files/{place}"), in_images],
                (_, Some(place)) => vec![format!("files/{place}")],
                (_, None) => vec![in_images],
            };
            for place in places {
                let to = self.work.join(place);
                let folder = to.parent().unwrap_or(&self.work);
                fs::create_dir_all(folder).doing("make", folder)?;
                fs::copy(path, &to).doing("copy", path)?;
            }
        }
        let archives = self.work.join("archives");
        fs::create_dir_all(&archives).doing("make", &archives)?;
        for (number, archive) in self.archives.iter().enumerate() {
            fs::copy(archive, archives.join(format!("{number:04}.tar"))).doing("copy", archive)?;
        }
        let mut images = containers::images(self.release);
        if self.management {
            images.extend(containers::management_images());
        }
        let images = serde_json::to_vec_pretty(&images).unwrap_or_default();
        let path = self.work.join("images.json");
        fs::write(&path, images).doing("write", &path)
    }

    /// Packs the OVA, writes the kernel command line, the SBOM (`list`) and the lock file, moves all files to the
    /// output folder under their final names, and writes the checksum file.
    fn finish(&self, name: &str, version: &str, lock: &Lock, list: &str, epoch: i64) -> Result<BuiltImage> {
        let made = self.work.join("out");
        let (disk, content) = (made.join("disk.vmdk"), made.join("disk.qcow2"));
        vmdk::settle_content_id(&disk, &sha256_of(&content).doing("read", &content)?)?;
        let disk_file = format!("{name}-disk1.vmdk");
        let descriptor = OvfDescriptor {
            disk_file: &disk_file,
            disk_file_bytes: fs::metadata(&disk).doing("read", &disk)?.len(),
            disk_bytes: DISK_BYTES,
            ..OvfDescriptor::of_release(name, self.os, self.release, version)
        };
        self.progress.note("packing the OVA");
        ova::write(&made.join("image.ova"), name, &descriptor.text(), &disk, &disk_file, epoch)?;
        let write = |file: &str, text: &str| {
            let path = made.join(file);
            fs::write(&path, text).doing("write", &path)
        };
        write("cmdline", sources::COMMAND_LINE)?;
        write("spdx.json", list)?;
        write("lock.json", &lock.text())?;
        let kinds = [
            ("image.ova", "ova"),
            ("disk.qcow2", "qcow2"),
            ("vmlinuz", "vmlinuz"),
            ("initrd.img", "initrd"),
            ("cmdline", "cmdline"),
            ("spdx.json", "spdx.json"),
            ("lock.json", "lock.json"),
        ];
        let mut sums = String::new();
        let mut files = Vec::new();
        for (from, kind) in kinds {
            let (from, file) = (made.join(from), format!("{name}.{kind}"));
            let _ = writeln!(sums, "{}  {file}", sha256_of(&from).doing("read", &from)?);
            let to = self.out.join(file);
            fs::rename(&from, &to).doing("write", &to)?;
            files.push(to);
        }
        let path = self.out.join(format!("{name}.sha256"));
        fs::write(&path, sums).doing("write", &path)?;
        files.push(path);
        Ok(BuiltImage { name: name.to_owned(), files })
    }
}

/// Returns the timestamp for all files in the image: SOURCE_DATE_EPOCH if set, otherwise the lock's epoch.
fn epoch(lock: &Lock) -> Result<i64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Err(_) => Ok(lock.epoch),
        Ok(text) => text
            .parse()
            .map_err(|_| Error::Request(format!("SOURCE_DATE_EPOCH={text}: must be seconds since 1970"))),
    }
}

/// Returns the image's release version. It contains the date, so that newer packages make a newer release.
fn version(release: &SupportedRelease, epoch: i64) -> String {
    let date = Timestamp::from_second(epoch).unwrap_or_default().to_zoned(TimeZone::UTC);
    format!("{}+layercake.{}", release.version, date.strftime("%Y%m%d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_grows_with_the_packages() {
        let release = SupportedRelease::find("v1.36").unwrap();
        assert_eq!(version(release, 1_789_199_741), "v1.36.3+layercake.20260912");
    }

    #[test]
    fn the_disk_is_as_large_as_the_descriptor_says() {
        let step = include_str!("../steps/disk");
        assert!(step.contains(&format!("disk={}\n", DISK_BYTES >> 20)));
    }

    #[test]
    fn what_cannot_be_built_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let request = |kubernetes: &str, os: &str| BuildRequest {
            kubernetes: kubernetes.to_owned(),
            os: os.to_owned(),
            out: folder.path().join("out"),
            lock: None,
            preload: Vec::new(),
        };
        let missing = Preload::Archive("/nowhere/vmop.tar".into());
        let absent = BuildRequest { preload: vec![missing], ..request("v1.36", "debian-13") };
        for (request, reason) in [
            (request("v1.20", "debian-13"), "images of Kubernetes v1.20 are not supported"),
            (request("v1.36", "photon-5"), "images of photon-5 are not supported; supported are debian-13"),
            (absent, "cannot find the archive /nowhere/vmop.tar"),
        ] {
            let refusal = build(&request, tools::progress().as_ref()).unwrap_err().to_string();
            assert!(refusal.starts_with(reason), "{refusal}");
        }
        assert!(!folder.path().join("out").exists());
    }
}
