//! Writes checksums and tar archives. Their bytes depend only on the packed files, not on the machine or the time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use plane::digest::sha256_of;
use tar::{Builder, EntryType, Header};

/// The checksum file in the archive, as `sha256sum --check` reads it.
const SUMS: &str = "SHA256SUMS";

/// Writes the checksum file for `root`. It lists all other files.
pub fn list(root: &Path) -> Result<()> {
    let mut sums = String::new();
    for file in files(root)? {
        if file != Path::new(SUMS) {
            let digest =
                sha256_of(&root.join(&file)).with_context(|| format!("cannot read {}", file.display()))?;
            let _ = writeln!(sums, "{digest}  {}", file.display());
        }
    }
    fs::write(root.join(SUMS), sums).context("cannot write the checksums")
}

/// Packs the folder `name` in `parent` into a compressed tar archive. Folders belong to the archive, too.
pub fn archive(parent: &Path, name: &str, epoch: i64, into: &Path) -> Result<()> {
    let file = File::create(into).with_context(|| format!("cannot write {}", into.display()))?;
    let compressed = GzBuilder::new().mtime(0).write(BufWriter::new(file), Compression::best());
    let mut tar = Builder::new(compressed);
    let mut folders = BTreeSet::new();
    for file in files(&parent.join(name))? {
        let path = Path::new(name).join(file);
        let above: Vec<_> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for folder in above.into_iter().rev() {
            if folders.insert(folder.to_owned()) {
                tar.append_data(
                    &mut header(EntryType::Directory, 0o755, 0, epoch),
                    folder,
                    std::io::empty(),
                )?;
            }
        }
        let from = parent.join(&path);
        let content = File::open(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let metadata = content.metadata()?;
        let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
        tar.append_data(&mut header(EntryType::Regular, mode, metadata.len(), epoch), &path, content)?;
    }
    tar.into_inner()?.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    Ok(())
}

fn header(kind: EntryType, mode: u32, size: u64, epoch: i64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(u64::try_from(epoch).unwrap_or_default());
    header
}

/// Returns the path to each file in `root`, relative to it and sorted.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path().strip_prefix(root)?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Writes a tree, lists and packs it. Returns the archive's digest.
    fn packed(folder: &Path) -> String {
        let root = folder.join("made/layercake-v1");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/layercake"), "program").unwrap();
        fs::set_permissions(root.join("bin/layercake"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(root.join("README.md"), "text").unwrap();
        list(&root).unwrap();
        let archive = folder.join("layercake-v1.tar.gz");
        super::archive(&folder.join("made"), "layercake-v1", 1_789_199_741, &archive).unwrap();
        sha256_of(&archive).unwrap()
    }

    #[test]
    fn an_archive_depends_only_on_its_content() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let digest = packed(one.path());
        fs::create_dir_all(other.path().join("made")).unwrap();
        fs::set_permissions(other.path().join("made"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(packed(other.path()), digest);
    }

    #[test]
    fn an_unpacked_archive_is_checked_to_the_last_byte() {
        let folder = tempfile::tempdir().unwrap();
        packed(folder.path());
        let run = |program: &str, args: &[&str], within: &Path| {
            Command::new(program).args(args).current_dir(within).output().unwrap().status.success()
        };
        assert!(run("tar", &["-xzf", "layercake-v1.tar.gz"], folder.path()));
        let root = folder.path().join("layercake-v1");
        assert!(run("sha256sum", &["--check", "--strict", "--quiet", SUMS], &root));
        for file in ["bin/layercake", "README.md"] {
            let before = fs::read(root.join(file)).unwrap();
            let mut changed = before.clone();
            changed[1] ^= 1;
            fs::write(root.join(file), changed).unwrap();
            assert!(!run("sha256sum", &["--check", "--strict", "--quiet", SUMS], &root), "{file}");
            fs::write(root.join(file), before).unwrap();
        }
        let mode = fs::metadata(root.join("bin/layercake")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
