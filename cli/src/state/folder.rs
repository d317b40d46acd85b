//! A bootstrap cluster's folder: its objects and keys, its settings, and the checks before it is used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use components::catalogue::LAYERCAKE;
use components::render::NodeNetworkProvider;
use gcm::release::version::Version;
use plane::stack::write_private;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::SiteNetworkProvider;
use crate::files::create_folder;
use crate::state::daemon::Daemon;
use crate::state::home;
use crate::terminal::exit::ExitStatus;

/// The version of the folder layout. A program rejects folders with a later version.
const LAYOUT: u32 = 1;
/// The maximum length of a bootstrap cluster's name. Other names are derived from it.
const MAX_NAME: usize = 40;

/// A folder with the objects of one bootstrap cluster.
#[derive(Clone, Debug)]
pub struct BootstrapFolder {
    name: String,
    path: PathBuf,
}

/// The program that last wrote the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Writer {
    layout: u32,
    layercake: String,
    kubernetes: String,
}

/// The recorded location of a folder. A copied folder still contains the original's location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    path: PathBuf,
    machine: String,
}

/// The site settings that become program arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteSettings {
    /// The network provider as written in the provider configuration.
    pub network_provider: String,
    /// True if nodes can reach the registries for add-on images.
    pub nodes_pull_images: bool,
    /// True if the site is this machine's simulated site with simulated nodes.
    pub simulated: bool,
    /// The part of the site file that was applied.
    pub applied: AppliedPart,
    /// True if a command with `--bootstrap` created the bootstrap cluster. Then the bootstrap cluster is deleted with
    /// its last workload cluster.
    pub for_command: bool,
    /// The arguments that the site file sets, by component name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Vec<String>>,
}

/// The part of a site file that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppliedPart {
    /// The provider configuration, which the programs need to start.
    Configuration,
    All,
}

impl SiteSettings {
    pub fn networks(&self) -> NodeNetworkProvider {
        SiteNetworkProvider::of_key(&self.network_provider).networks()
    }

    /// Returns the arguments that the site file sets for a component.
    pub fn args_of(&self, component: &str) -> Vec<String> {
        self.args.get(component).cloned().unwrap_or_default()
    }
}

impl BootstrapFolder {
    /// Returns the folder of the bootstrap cluster with this name. The folder doesn't have to exist.
    ///
    /// # Errors
    /// Returns an error if the name is invalid.
    pub fn of(name: &str) -> Result<Self> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), path: parent()?.join(name) })
    }

    /// Returns all folders on this machine, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the folders can't be listed.
    pub fn all() -> Result<Vec<Self>> {
        let parent = parent()?;
        let entries = match fs::read_dir(&parent) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("cannot list {}", parent.display()))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut all: Vec<_> = names.filter_map(|name| Self::of(&name).ok()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the daemon that runs the bootstrap cluster.
    pub fn daemon(&self) -> Daemon {
        Daemon::new(self.path.clone(), "process", format!("bootstrap cluster {}", self.name))
    }

    /// Locks the bootstrap cluster against other commands that start, stop or delete it, until the returned file is
    /// closed.
    ///
    /// # Errors
    /// Returns an error if another command holds the lock, or if the lock file can't be opened.
    pub fn lock(&self) -> Result<File> {
        create_folder(&self.path)?;
        let path = self.path.join("command.lock");
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        if file.try_lock().is_err() {
            return Err(ExitStatus::Refused.error(format!(
                "another command uses bootstrap cluster {}. Nothing was changed. Run this command again when the other has ended",
                self.name
            )));
        }
        Ok(file)
    }

    /// Returns true if the bootstrap cluster exists, even if its creation was interrupted.
    pub fn exists(&self) -> bool {
        self.path.join("version").exists()
    }

    /// Returns the error for a missing bootstrap cluster, which ends with `remedy`.
    pub fn missing(&self, remedy: &str) -> anyhow::Error {
        ExitStatus::Refused.error(format!("bootstrap cluster {} does not exist. {remedy}", self.name))
    }

    /// Rejects a folder from a later program version, or a copy whose original still exists on this machine.
    ///
    /// # Errors
    /// Returns an error if the folder is rejected, or if its recorded version or location can't be read.
    pub fn check(&self) -> Result<()> {
        if let Some(writer) = self.read::<Writer>("version")? {
            check_version(&self.name, &writer, &Writer::this())?;
        }
        let Some(place) = self.read::<Place>("place")? else { return Ok(()) };
        let here = Place::of(&self.path);
        let is_original = |path: &Path| {
            let id = |folder: &Path| fs::read(folder.join("id")).ok();
            id(path).is_some() && id(path) == id(&self.path)
        };
        if place.machine == here.machine && place.path != here.path && is_original(&place.path) {
            return Err(ExitStatus::Refused.error(format!(
                "{} is a copy of {}. Two management clusters must not manage the same VMs, so nothing was started. Delete the copy, or move the original away",
                self.path.display(),
                place.path.display()
            )));
        }
        Ok(())
    }

    /// Returns the release that last ran the bootstrap cluster, if it isn't this program's.
    ///
    /// # Errors
    /// Returns an error if the recorded version can't be read.
    pub fn other_release(&self) -> Result<Option<String>> {
        let writer = self.read::<Writer>("version")?;
        Ok(writer.map(|writer| writer.layercake).filter(|release| release != LAYERCAKE))
    }

    /// Returns true if the folder comes from another machine, where the original may be running.
    ///
    /// # Errors
    /// Returns an error if the recorded location can't be read.
    pub fn is_from_elsewhere(&self) -> Result<bool> {
        let place = self.read::<Place>("place")?;
        Ok(place.is_some_and(|place| place.machine != Place::of(&self.path).machine))
    }

    /// Records this program as the last writer, and the current location.
    ///
    /// # Errors
    /// Returns an error if the folder must not be used or can't be written to.
    pub fn claim(&self) -> Result<()> {
        self.check()?;
        self.write("version", &Writer::this())?;
        self.write("place", &Place::of(&self.path))
    }

    /// Returns the settings if the site was configured.
    ///
    /// # Errors
    /// Returns an error if the settings can't be read.
    pub fn settings(&self) -> Result<Option<SiteSettings>> {
        self.read("settings")
    }

    /// Saves the settings.
    ///
    /// # Errors
    /// Returns an error if the settings can't be written.
    pub fn keep_settings(&self, settings: &SiteSettings) -> Result<()> {
        self.write("settings", settings)
    }

    /// Reads and parses a file in the folder, or returns `None` if it doesn't exist.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or parsed.
    pub fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>> {
        let path = self.path.join(file);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let content = serde_json::from_slice(&text);
        content.map(Some).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes a file in the folder atomically.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn write(&self, file: &str, content: &impl Serialize) -> Result<()> {
        Ok(write_private(&self.path.join(file), &serde_json::to_vec_pretty(content)?)?)
    }

    /// Deletes the folder, if it exists.
    ///
    /// # Errors
    /// Returns an error if the folder or something in it can't be deleted.
    pub fn delete(&self) -> Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

fn parent() -> Result<PathBuf> {
    Ok(home::folder()?.join("bootstrap"))
}

impl Writer {
    fn this() -> Self {
        Self {
            layout: LAYOUT,
            layercake: LAYERCAKE.to_owned(),
            kubernetes: format!("v{}", plane::tools::KUBERNETES),
        }
    }
}

impl Place {
    fn of(path: &Path) -> Self {
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned();
        Self { path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()), machine }
    }
}

/// Fails if the folder has a newer layout, or was last written by a later minor release of Layercake or Kubernetes. An
/// older API server can't read the objects of a newer version.
fn check_version(name: &str, writer: &Writer, this: &Writer) -> Result<()> {
    let minor = |text: &str| Version::parse(text).ok().map(|version| version.minor());
    let is_newer = |of: fn(&Writer) -> &str| minor(of(writer)) > minor(of(this));
    if writer.layout > this.layout || is_newer(|one| &one.layercake) || is_newer(|one| &one.kubernetes) {
        return Err(ExitStatus::Refused.error(format!(
            "bootstrap cluster {name} was last run by layercake {} (Kubernetes {}), and this is {} (Kubernetes {}), which cannot read its objects. Nothing was changed. Use layercake {} or later",
            writer.layercake, writer.kubernetes, this.layercake, this.kubernetes, writer.layercake
        )));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = |c: Option<char>| c.is_some_and(|c| c != '-');
    let is_name = name.len() <= MAX_NAME && name.chars().all(fits);
    if is_name && ends(name.chars().next()) && ends(name.chars().next_back()) {
        return Ok(());
    }
    Err(ExitStatus::Refused.error(format!(
        "{name:?} is not a name for a bootstrap cluster. A name has up to {MAX_NAME} lower case letters, digits and hyphens, such as lab"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::exit::status_of_error;

    #[test]
    fn a_name_is_no_path() {
        for name in ["lab", "a", "lab-2", "0"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a/b", "..", "../lab", "/lab", "Lab", "-a", "a-", "a b", &"a".repeat(41)] {
            let error = check_name(name).unwrap_err();
            assert_eq!(status_of_error(&error), ExitStatus::Refused, "{name}");
        }
    }

    fn writer(layout: u32, layercake: &str, kubernetes: &str) -> Writer {
        Writer { layout, layercake: layercake.to_owned(), kubernetes: kubernetes.to_owned() }
    }

    #[test]
    fn a_folder_of_a_later_version_is_refused() {
        let this = writer(1, "v0.2.0", "v1.36.3");
        for fine in
            [writer(1, "v0.2.0", "v1.36.5"), writer(1, "v0.1.9", "v1.35.0"), writer(0, "v0.2.7", "v1.36.3")]
        {
            assert!(check_version("lab", &fine, &this).is_ok(), "{fine:?}");
        }
        for later in
            [writer(2, "v0.2.0", "v1.36.3"), writer(1, "v0.3.0", "v1.36.3"), writer(1, "v0.2.0", "v1.37.0")]
        {
            let error = check_version("lab", &later, &this).unwrap_err();
            assert_eq!(status_of_error(&error), ExitStatus::Refused, "{later:?}");
        }
    }

    #[test]
    fn the_release_that_ran_a_folder_is_named_if_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let lab = BootstrapFolder { name: "lab".to_owned(), path: folder.path().to_owned() };
        assert_eq!(lab.other_release().unwrap(), None);
        lab.write("version", &writer(1, "v0.0.9", "v1.35.0")).unwrap();
        assert_eq!(lab.other_release().unwrap().as_deref(), Some("v0.0.9"));
        lab.claim().unwrap();
        assert_eq!(lab.other_release().unwrap(), None);
    }

    #[test]
    fn a_copy_is_refused_while_the_original_exists() {
        let state = tempfile::tempdir().unwrap();
        let folder = |name: &str| BootstrapFolder { name: name.to_owned(), path: state.path().join(name) };
        let (original, copy) = (folder("lab"), folder("copy"));
        fs::create_dir(original.path()).unwrap();
        fs::write(original.path().join("id"), "0123456789abcdef").unwrap();
        original.claim().unwrap();
        fs::create_dir(copy.path()).unwrap();
        for file in ["id", "version", "place"] {
            fs::copy(original.path().join(file), copy.path().join(file)).unwrap();
        }
        let error = copy.claim().unwrap_err();
        assert!(error.to_string().contains("is a copy of"), "{error}");
        original.claim().unwrap();
        original.delete().unwrap();
        copy.claim().unwrap();
        assert!(!copy.is_from_elsewhere().unwrap());
    }
}
