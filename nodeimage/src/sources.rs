//! The image and build files in the folders next to `src/`. They are embedded, so that an installed program can build
//! images, too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use include_dir::{Dir, include_dir};

use crate::error::{IoContext, Result};

static ROOT: Dir = include_dir!("$CARGO_MANIFEST_DIR/root");
static STEPS: Dir = include_dir!("$CARGO_MANIFEST_DIR/steps");
static PACKAGES: Dir = include_dir!("$CARGO_MANIFEST_DIR/packages");
/// The kernel command line.
pub(crate) const COMMAND_LINE: &str = include_str!("../cmdline");

/// Returns the package names in a list, without blank lines or comments.
pub(crate) fn packages(list: &str) -> Vec<&'static str> {
    let text = PACKAGES.get_file(list).and_then(|file| file.contents_utf8()).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Writes the build steps' input into the work folder. `pause` is the sandbox image, which replaces `@PAUSE@` in containerd's
/// configuration.
pub(crate) fn write(work: &Path, pause: &str) -> Result<()> {
    write_folder(&STEPS, &work.join("steps"), pause)?;
    write_folder(&PACKAGES, &work.join("packages"), pause)?;
    write_folder(&ROOT, &work.join("files"), pause)?;
    let path = work.join("cmdline");
    fs::write(&path, COMMAND_LINE).doing("write", &path)
}

fn write_folder(folder: &Dir, into: &Path, pause: &str) -> Result<()> {
    fs::create_dir_all(into).doing("make", into)?;
    for file in folder.files() {
        let path = into.join(file.path().file_name().unwrap_or_default());
        let text = String::from_utf8_lossy(file.contents()).replace("@PAUSE@", pause);
        fs::write(&path, &text).doing("write", &path)?;
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).doing("change", &path)?;
    }
    for inner in folder.dirs() {
        write_folder(inner, &into.join(inner.path().file_name().unwrap_or_default()), pause)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_packages_are_sorted() {
        for list in ["node", "containers", "builder"] {
            let names = packages(list);
            assert!(!names.is_empty() && names.is_sorted(), "packages/{list}");
        }
    }

    #[test]
    fn programs_are_executable_and_the_pause_image_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "registry.k8s.io/pause:3.10.2").unwrap();
        let files = folder.path().join("files");
        let mode = |path: &str| fs::metadata(files.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("usr/lib/layercake/fill-containerd"), 0o755);
        assert_eq!(mode("etc/fstab"), 0o644);
        let config = fs::read_to_string(files.join("etc/containerd/config.toml")).unwrap();
        assert!(config.contains("sandbox = 'registry.k8s.io/pause:3.10.2'"), "{config}");
    }

    /// Cluster API's userdata and the reporter in the vendordata only work if cloud-init runs these modules.
    #[test]
    fn cloud_init_runs_what_nodes_are_given() {
        let config = ROOT.get_file("etc/cloud/cloud.cfg.d/90-node.cfg").and_then(|file| file.contents_utf8());
        let config = config.unwrap();
        let modules = |list: &str| -> Vec<&str> {
            let line = config.lines().find_map(|line| line.strip_prefix(list)?.strip_prefix(": [")).unwrap();
            line.trim_end_matches(']').split(", ").collect()
        };
        for (list, wanted) in [
            ("cloud_init_modules", &["bootcmd", "write_files", "disk_setup", "mounts", "users_groups"][..]),
            ("cloud_config_modules", &["ntp", "runcmd"]),
            ("cloud_final_modules", &["scripts_vendor", "scripts_per_boot", "scripts_user"]),
        ] {
            let modules = modules(list);
            assert!(
                wanted.iter().all(|module| modules.contains(module)),
                "{list}: {modules:?} lack {wanted:?}"
            );
        }
    }

    #[test]
    fn nics_of_a_node_are_called_eth() {
        assert!(COMMAND_LINE.contains(" net.ifnames=0 "));
    }
}
