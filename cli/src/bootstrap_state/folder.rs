//! The folder of a bootstrap cluster: its objects, its keys, and who may use them.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use components::catalogue::LAYERCAKE;
use components::render::Networks;
use gcm::release::version::Version;
use plane::stack::write_private;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::SiteNetworkProvider;
use crate::daemon::Daemon;
use crate::exit::ExitStatus;
use crate::files::create_folder;
use crate::state;

/// The layout of the folder. A program refuses folders of a later one.
const LAYOUT: u32 = 1;
/// The most letters of a name, which becomes part of other names.
const MAX_NAME: usize = 40;

/// A folder with the objects of one bootstrap cluster.
#[derive(Clone, Debug)]
pub struct Folder {
    name: String,
    path: PathBuf,
}

/// Who wrote the folder last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Writer {
    layout: u32,
    layercake: String,
    kubernetes: String,
}

/// Where the folder is. A copy has the place of its original.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    path: PathBuf,
    machine: String,
}

/// The facts about the site that the programs get as arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The provider of networks, as the provider configuration has it.
    pub network_provider: String,
    /// Nodes reach the registries of add-ons.
    pub nodes_pull_images: bool,
    /// The site is the simulated one of this machine, with simulated nodes.
    pub simulated: bool,
    /// The part of the site file that is applied.
    pub applied: Applied,
    /// A command with `--bootstrap` created it, so the deletion of the last cluster deletes it.
    pub for_command: bool,
}

/// The part of a site file that is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// The provider configuration, with which our programs can start.
    Configuration,
    /// All objects.
    All,
}

impl Settings {
    /// The provider of networks.
    pub fn networks(&self) -> Networks {
        SiteNetworkProvider::of_key(&self.network_provider).networks()
    }
}

impl Folder {
    /// The folder of this name, which may not exist.
    ///
    /// # Errors
    /// If this is no name.
    pub fn of(name: &str) -> Result<Self> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), path: parent()?.join(name) })
    }

    /// The folders of this machine.
    ///
    /// # Errors
    /// If they cannot be listed.
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

    /// The name of the bootstrap cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that runs the bootstrap cluster.
    pub fn daemon(&self) -> Daemon {
        Daemon::new(self.path.clone(), "process", format!("bootstrap cluster {}", self.name))
    }

    /// Makes this command the only one that starts, stops or deletes the bootstrap cluster, for as long as the file is open.
    ///
    /// # Errors
    /// If another command does so.
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

    /// True if there is a bootstrap cluster, or the beginning of one.
    pub fn exists(&self) -> bool {
        self.path.join("version").exists()
    }

    /// The error if there is none.
    pub fn missing(&self, remedy: &str) -> anyhow::Error {
        ExitStatus::Refused.error(format!("bootstrap cluster {} does not exist. {remedy}", self.name))
    }

    /// Refuses a folder that this program must not use: one of a later version, or a copy of a folder that exists.
    ///
    /// # Errors
    /// With the remedy.
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

    /// Returns true if the folder comes from another machine, on which a copy may run.
    ///
    /// # Errors
    /// If its place cannot be read.
    pub fn is_from_elsewhere(&self) -> Result<bool> {
        let place = self.read::<Place>("place")?;
        Ok(place.is_some_and(|place| place.machine != Place::of(&self.path).machine))
    }

    /// Makes this program the last one that wrote the folder, and this its place.
    ///
    /// # Errors
    /// If the folder must not be used, or cannot be written.
    pub fn claim(&self) -> Result<()> {
        self.check()?;
        self.write("version", &Writer::this())?;
        self.write("place", &Place::of(&self.path))
    }

    /// The settings, if the site was configured.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn settings(&self) -> Result<Option<Settings>> {
        self.read("settings")
    }

    /// Keeps the settings.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_settings(&self, settings: &Settings) -> Result<()> {
        self.write("settings", settings)
    }

    /// Reads one of the files.
    ///
    /// # Errors
    /// If it exists and cannot be read.
    pub fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>> {
        let path = self.path.join(file);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let content = serde_json::from_slice(&text);
        content.map(Some).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes one of the files, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, file: &str, content: &impl Serialize) -> Result<()> {
        Ok(write_private(&self.path.join(file), &serde_json::to_vec_pretty(content)?)?)
    }

    /// Deletes everything.
    ///
    /// # Errors
    /// If something cannot be deleted.
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
    Ok(state::folder()?.join("bootstrap"))
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

/// An older API server cannot read what a newer one stored.
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
    use crate::exit::status_of_error;

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
    fn a_copy_is_refused_while_the_original_exists() {
        let state = tempfile::tempdir().unwrap();
        let folder = |name: &str| Folder { name: name.to_owned(), path: state.path().join(name) };
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
