//! Installs a small release with `release/install.sh`, from a folder and as a URL, and breaks it in each way that users meet.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const NAME: &str = "layercake-v9.9.9-x86_64-linux";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../install.sh");

/// A release whose command is a script, and a prefix to install it to.
struct Release {
    folder: TempDir,
}

impl Release {
    fn new() -> Self {
        let release = Self { folder: tempfile::tempdir().unwrap() };
        release.pack("echo v9.9.9");
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the archive with a command that runs `script`, and the checksums.
    fn pack(&self, script: &str) {
        let tree = self.path("made").join(NAME);
        fs::create_dir_all(tree.join("share/man/man1")).unwrap();
        fs::write(tree.join("share/man/man1/layercake.1"), ".TH layercake 1\n").unwrap();
        write_program(&tree.join("bin/layercake"), script);
        fs::create_dir_all(self.path("release")).unwrap();
        fs::write(tree.join("share/large"), vec![0; 1 << 20]).unwrap();
        let pack = format!(
            "cd {NAME} && sha256sum bin/layercake share/man/man1/layercake.1 share/large > SHA256SUMS && cd .. \
             && tar -czf ../release/{NAME}.tar.gz {NAME} && cd ../release && sha256sum {NAME}.tar.gz > SHA256SUMS"
        );
        let done = Command::new("sh").arg("-c").arg(pack).current_dir(self.path("made")).status().unwrap();
        assert!(done.success());
    }

    /// Runs install.sh with `args`, and with programs in the folder `bin` before the system's own.
    fn install(&self, args: &[&str]) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        self.install_with(&path, args)
    }

    /// Runs install.sh with `args`, and with programs from the folders in `path`.
    fn install_with(&self, path: &str, args: &[&str]) -> Output {
        let mut command = Command::new("/bin/sh");
        command.arg(SCRIPT).args(args).env("PATH", path).env("HOME", self.path("home"));
        command.output().unwrap()
    }

    /// Installs to a file system in memory with these mount options. Fails unless that was refused with `expected`, and left no
    /// file. Returns false if this user can't mount file systems.
    fn is_refused_on(&self, options: &str, expected: &str) -> bool {
        fs::create_dir_all(self.path("prefix")).unwrap();
        let script = "mount -t tmpfs -o \"$1\" none \"$2\" || exit 99; \
                      sh \"$3\" --prefix \"$2\" \"$4\" >&2 && exit 1; find \"$2\" ! -type d";
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-uc", script, "sh", options])
            .args([self.path("prefix").as_os_str(), SCRIPT.as_ref(), self.path("release").as_os_str()])
            .output();
        let Ok(output) = output else { return false };
        let error = String::from_utf8_lossy(&output.stderr);
        if error.starts_with("unshare: ") || output.status.code() == Some(99) {
            return false;
        }
        assert!(output.status.success() && error.contains(expected), "{options}: {error}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{options}");
        true
    }

    /// Runs the installed command, and returns its output.
    fn run(&self) -> String {
        let ran = Command::new(self.path("prefix/bin/layercake")).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Installs from the folder to the prefix.
    fn install_here(&self) -> Output {
        self.install(&[
            "--prefix",
            &self.path("prefix").to_string_lossy(),
            &self.path("release").to_string_lossy(),
        ])
    }

    /// Fails unless the prefix has one release, and nothing unfinished.
    fn assert_installed_once(&self) {
        let folders = left(&self.path("prefix/lib"));
        assert!(matches!(&folders[..], [one] if one.starts_with(NAME)), "{folders:?}");
    }

    /// Fails unless the installation was refused with `expected` and left the prefix empty.
    fn assert_refused(&self, output: &Output, expected: &str) {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{error}");
        assert!(!self.path("prefix/bin/layercake").exists());
        assert_eq!(left(&self.path("prefix/lib")), Vec::<String>::new());
    }
}

fn write_program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = path.with_extension("sh");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    // Another process writes the file, because a file that is open for writing can't be run.
    assert!(Command::new("install").arg("--mode=755").arg(&text).arg(path).status().unwrap().success());
    fs::remove_file(text).unwrap();
}

fn left(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_release_is_installed_linked_and_replaced() {
    let release = Release::new();
    for _ in 0..2 {
        let output = release.install_here();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("Installed {NAME}.")) && text.contains("Add "), "{text}");
        assert!(text.contains("The signature was not verified, because no key was named"), "{text}");
        assert_eq!(release.run(), "v9.9.9\n");
        assert!(release.path("prefix/share/man/man1/layercake.1").is_file());
        release.assert_installed_once();
    }
}

#[test]
fn the_default_is_the_home_folder_and_a_url_is_a_source() {
    let release = Release::new();
    let url = format!("file://{}", release.path("release").display());
    assert!(release.install(&[&url]).status.success());
    assert!(release.path("home/.local/bin/layercake").is_file());
}

#[test]
fn a_changed_byte_in_the_archive_is_found() {
    let release = Release::new();
    let archive = release.path("release").join(format!("{NAME}.tar.gz"));
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    release.assert_refused(&release.install_here(), "is damaged: its checksum is not the one in SHA256SUMS");
}

#[test]
fn a_missing_file_is_named() {
    let release = Release::new();
    fs::remove_file(release.path("release").join(format!("{NAME}.tar.gz"))).unwrap();
    release.assert_refused(&release.install_here(), &format!("cannot copy {NAME}.tar.gz from"));
    fs::write(release.path("release/SHA256SUMS"), "").unwrap();
    release.assert_refused(&release.install_here(), "does not list one archive");
}

#[test]
fn an_unusable_file_system_is_named_and_nothing_is_left() {
    let release = Release::new();
    for (options, expected) in [
        ("size=4k", &*format!("cannot copy {NAME}.tar.gz from")),
        ("size=512k", &format!("cannot unpack {NAME}.tar.gz into")),
        ("size=512k", "If the disk is full, free about 1 GiB"),
        ("size=8m,noexec", "Permission denied. If the file system is mounted noexec, choose another folder"),
        ("ro", "Choose another folder with --prefix"),
    ] {
        if !release.is_refused_on(options, expected) {
            eprintln!("skipped: this user can't mount file systems");
            return;
        }
    }
}

#[test]
fn a_prefix_that_cannot_be_written_is_named() {
    let release = Release::new();
    fs::write(release.path("prefix"), "a file").unwrap();
    let output = release.install_here();
    assert!(String::from_utf8_lossy(&output.stderr).contains("Choose another folder with --prefix"));
}

#[test]
fn another_processor_is_refused() {
    let release = Release::new();
    write_program(&release.path("bin/uname"), "[ \"$1\" = -s ] && echo Linux || echo aarch64");
    release.assert_refused(&release.install_here(), "is for Linux on x86_64, not for Linux on aarch64");
}

#[test]
fn an_interrupted_installation_keeps_the_old_release() {
    let release = Release::new();
    // The shell that runs install.sh is interrupted while it unpacks.
    let interrupt = |signal: &str| {
        write_program(&release.path("bin/tar"), &format!("kill -{signal} $PPID; exit 1"));
        assert!(!release.install_here().status.success());
    };
    interrupt("TERM");
    assert_eq!(left(&release.path("prefix/lib")), Vec::<String>::new());
    fs::remove_file(release.path("bin/tar")).unwrap();
    assert!(release.install_here().status.success());
    for signal in ["INT", "TERM", "HUP"] {
        interrupt(signal);
        release.assert_installed_once();
    }
    // Not even a handler runs after SIGKILL. The next installation removes what is left.
    interrupt("KILL");
    assert_eq!(left(&release.path("prefix/lib")).len(), 2);
    fs::remove_file(release.path("bin/tar")).unwrap();
    assert!(Command::new(release.path("prefix/bin/layercake")).status().unwrap().success());
    assert!(release.install_here().status.success());
    release.assert_installed_once();
}

#[test]
fn another_build_of_the_same_version_replaces_the_first_at_once() {
    let release = Release::new();
    assert!(release.install_here().status.success());
    release.pack("echo rebuilt");
    for killed in ["mv", "ln"] {
        write_program(&release.path("bin").join(killed), "kill -KILL $PPID");
        assert!(!release.install_here().status.success());
        fs::remove_file(release.path("bin").join(killed)).unwrap();
        assert_eq!(release.run(), "v9.9.9\n", "killed at {killed}");
    }
    assert!(release.install_here().status.success());
    assert_eq!(release.run(), "rebuilt\n");
    release.assert_installed_once();
}

#[test]
fn a_damaged_installation_is_repaired() {
    let release = Release::new();
    assert!(release.install_here().status.success());
    let command = fs::canonicalize(release.path("prefix/bin/layercake")).unwrap();
    write_program(&command, "echo damaged");
    assert!(release.install_here().status.success());
    assert_eq!(release.run(), "v9.9.9\n");
}

#[test]
fn a_signature_is_verified_if_a_key_is_named() {
    let release = Release::new();
    let install = || {
        release.install(&[
            "--prefix",
            &release.path("prefix").to_string_lossy(),
            "--public-key",
            "key.pub",
            &release.path("release").to_string_lossy(),
        ])
    };
    write_program(&release.path("bin/minisign"), "exit 1");
    release.assert_refused(&install(), "cannot copy SHA256SUMS.minisig");
    fs::write(release.path("release/SHA256SUMS.minisig"), "signature").unwrap();
    release.assert_refused(&install(), "the signature of SHA256SUMS is not valid for the key in key.pub");
    write_program(&release.path("bin/minisign"), "[ \"$*\" = \"-V -q -p key.pub -m ${6}\" ]");
    let output = install();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_signature_is_not_skipped_without_minisign() {
    let release = Release::new();
    fs::create_dir_all(release.path("others")).unwrap();
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap()) {
        for name in left(&folder).into_iter().filter(|name| name != "minisign") {
            // The first program with a name counts, as in PATH.
            let _ = symlink(folder.join(&name), release.path("others").join(name));
        }
    }
    let (prefix, source) = (release.path("prefix"), release.path("release"));
    let (path, prefix, source) = (release.path("others"), prefix.to_string_lossy(), source.to_string_lossy());
    let install = |args: &[&str]| release.install_with(&path.to_string_lossy(), args);
    let signed = install(&["--prefix", &prefix, "--public-key", "key.pub", &source]);
    release.assert_refused(&signed, "minisign is not installed, so that the signature cannot be verified");
    assert!(install(&["--prefix", &prefix, &source]).status.success());
}

/// Follows docs/install.md with a key of its own, and changes one byte in each file of the release and of the unpacked archive.
#[test]
fn the_documented_commands_find_a_changed_byte_in_each_file() {
    let release = Release::new();
    let folder = release.path("release");
    let minisign = |args: &[&str]| Command::new("minisign").args(args).current_dir(&folder).output();
    let Ok(made) = minisign(&["-G", "-W", "-p", "layercake.pub", "-s", "../layercake.key"]) else {
        eprintln!("skipped: minisign is not installed");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(minisign(&["-S", "-W", "-s", "../layercake.key", "-m", "SHA256SUMS"]).unwrap().status.success());
    let verify = [documented("minisign -V"), documented("sha256sum --check")].join(" && ");
    let is_valid = |folder: &Path, commands: &str| {
        Command::new("sh").args(["-euc", commands]).current_dir(folder).output().unwrap().status.success()
    };
    assert!(is_valid(&folder, &verify));
    let archive = format!("{NAME}.tar.gz");
    for file in ["SHA256SUMS", "SHA256SUMS.minisig", &archive] {
        let intact = flip(&folder.join(file));
        assert!(!is_valid(&folder, &verify), "{file}");
        fs::write(folder.join(file), intact).unwrap();
    }
    assert!(is_valid(&folder, &verify));

    let unpacked = release.path("made").join(NAME);
    let check =
        documented("(cd layercake-v0.1.0-x86_64-linux").replace("layercake-v0.1.0-x86_64-linux", NAME);
    for file in ["SHA256SUMS", "bin/layercake", "share/man/man1/layercake.1"] {
        assert!(is_valid(&release.path("made"), &check));
        let intact = flip(&unpacked.join(file));
        assert!(!is_valid(&release.path("made"), &check), "{file}");
        fs::write(unpacked.join(file), intact).unwrap();
    }
}

/// Returns the line of docs/install.md that begins with `start`.
fn documented(start: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/install.md");
    let page = fs::read_to_string(page).unwrap();
    let line = page.lines().filter_map(|line| line.strip_prefix("    ")).find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("docs/install.md has no command {start}")).to_owned()
}

/// Flips the highest bit of the byte in the middle of a file, and returns the previous content. In a signature, the byte can be the last
/// Base64 character, whose lowest bits minisign ignores.
fn flip(file: &Path) -> Vec<u8> {
    let intact = fs::read(file).unwrap();
    let mut changed = intact.clone();
    changed[intact.len() / 2] ^= 0x80;
    fs::write(file, changed).unwrap();
    intact
}

#[test]
fn the_help_lists_the_options() {
    let release = Release::new();
    let help = String::from_utf8(release.install(&["--help"]).stdout).unwrap();
    assert!(
        help.starts_with("Installs a release") && help.contains("--prefix") && !help.contains("set -eu"),
        "{help}"
    );
    assert_eq!(fs::metadata(SCRIPT).unwrap().permissions().mode() & 0o111, 0o111);
}
