//! Runs the commands on a documentation page, and compares their output with the page.
//!
//! With `LAYERCAKE_RECORD_DOCS` set, writes the output into the page instead.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::command::exe;
use crate::harness::shared_stack::{SharedStack, build_tool};

/// The line that opens a command block.
const BLOCK: &str = "```console";
const END: &str = "```";
const PROMPT: &str = "$ ";
/// A placeholder for any number of lines, or within a line for any number of words.
const LEFT_OUT: &str = "…";

/// A page whose commands are run in order. The lines before `next` are done.
pub struct Page {
    path: PathBuf,
    lines: Vec<String>,
    next: usize,
    shell: Shell,
    recording: bool,
}

/// The environment of the commands: the repository root, the stack's kubectl, and a separate kubeconfig.
struct Shell {
    folder: tempfile::TempDir,
    path: String,
    /// The page's assignments so far, such as `MACHINE=$(…)`. Each command runs in its own shell, after them.
    variables: String,
}

impl Page {
    /// Opens a page in `docs`, for the stack's kubeconfig.
    pub fn open(name: &str, shared: &SharedStack) -> Self {
        Self::with_kubeconfig(name, &shared.session.kubeconfig)
    }

    /// Opens a page in `docs`, whose commands use a copy of a kubeconfig.
    pub fn with_kubeconfig(name: &str, kubeconfig: &Path) -> Self {
        let path = root().join("docs").join(name);
        let lines = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let recording = std::env::var_os("LAYERCAKE_RECORD_DOCS").is_some();
        Self { path, lines, next: 0, shell: Shell::new(kubeconfig), recording }
    }

    /// Runs all commands in the section with this heading.
    pub async fn run_section(&mut self, heading: &str) {
        let start = format!("## {heading}");
        let found = self.lines.iter().skip(self.next).position(|line| *line == start);
        self.next += found.unwrap_or_else(|| panic!("the page has no further section {heading:?}")) + 1;
        while self.next < self.lines.len() && !self.lines[self.next].starts_with("## ") {
            if self.lines[self.next] == BLOCK {
                self.next += 1;
                self.run_block().await;
            }
            self.next += 1;
        }
    }

    async fn run_block(&mut self) {
        while let Some(command) = self.lines[self.next].strip_prefix(PROMPT).map(str::to_owned) {
            self.next += 1;
            let output = self.shell.run(&command).await;
            eprintln!("$ {command}\n{}", output.join("\n"));
            let after = self.lines[self.next..].iter();
            let written = after.take_while(|line| !line.starts_with(PROMPT) && *line != END).count();
            let written = self.next..self.next + written;
            let page = self.lines[written.clone()].to_vec();
            // Pages with placeholders are written by hand.
            if self.recording && !page.iter().any(|line| line == LEFT_OUT) {
                self.next += output.len();
                self.lines.splice(written, output);
            } else {
                let same = shows(&page, &output);
                if !same && let Some(object) = awaited_object(&command) {
                    let found = self.shell.run(&format!("kubectl get {object} -o yaml")).await;
                    eprintln!("what was waited for:\n{}", found.join("\n"));
                }
                assert!(same, "`{command}` prints\n{}\nand the page\n{}", output.join("\n"), page.join("\n"));
                self.next += page.len();
            }
        }
        assert_eq!(self.lines[self.next], END, "what stands before the first command of a block?");
    }

    /// Returns the commands' home folder.
    pub fn home(&self) -> PathBuf {
        self.shell.folder.path().to_owned()
    }

    /// Checks that all blocks have been run, and saves a recorded page.
    pub fn close(self) {
        let left = self.lines[self.next.min(self.lines.len())..].iter().filter(|line| *line == BLOCK).count();
        assert_eq!(left, 0, "blocks that were not run");
        if self.recording {
            std::fs::write(&self.path, self.lines.join("\n") + "\n").unwrap();
        }
    }
}

impl Shell {
    fn new(kubeconfig: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(kubeconfig, folder.path().join("kubeconfig")).unwrap();
        let kubectl = build_tool(&plane::tools::KUBECTL);
        std::os::unix::fs::symlink(kubectl, folder.path().join("kubectl")).unwrap();
        std::os::unix::fs::symlink(exe(), folder.path().join("layercake")).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        Self { path: format!("{}:{path}", folder.path().display()), folder, variables: String::new() }
    }

    /// Runs a command, and returns the lines of both output streams.
    async fn run(&mut self, command: &str) -> Vec<String> {
        let mut shell = Command::new("sh");
        let script = format!("{}{{ {command}\n}} 2>&1", self.variables);
        if is_assignment(command) {
            self.variables.extend([command, "\n"]);
        }
        shell.args(["-c", &script]).current_dir(root()).env("PATH", &self.path);
        // Share the tool cache, so that programs aren't built again for this home folder.
        shell.env("LAYERCAKE_CACHE", plane::tools::cache_folder().unwrap());
        shell.env_remove("XDG_STATE_HOME");
        shell.env("HOME", self.folder.path()).env("KUBECONFIG", self.folder.path().join("kubeconfig"));
        let output = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

/// Returns true for a command such as `NAME=$(…)`, which only sets a variable.
fn is_assignment(command: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|letter| letter.is_ascii_uppercase());
    command.split_once('=').is_some_and(|(name, value)| is_name(name) && value.starts_with("$("))
}

/// Returns the object that a `kubectl wait` command waits for, as KIND/NAME.
fn awaited_object(command: &str) -> Option<&str> {
    let words = command.strip_prefix("kubectl wait ")?.split(' ');
    words.into_iter().find(|word| !word.starts_with('-') && word.contains('/'))
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns true if a page shows a command's output. A busy machine's API server can answer late, so the command's notice about
/// it isn't compared.
fn shows(page: &[String], output: &[String]) -> bool {
    let is_late = |line: &String| line.starts_with("waiting for the answer of ");
    let output: Vec<_> = output.iter().filter(|line| !is_late(line)).cloned().collect();
    leaves_out(page, &output, &is_alike)
}

/// Returns true if both lists match. A placeholder in `page` matches any number of members.
fn leaves_out(page: &[String], output: &[String], is_alike: &dyn Fn(&str, &str) -> bool) -> bool {
    let (mut at, mut printed) = (0, 0);
    // The position after the last placeholder, and the number of members that are printed up to its end.
    let mut resumed = None;
    while printed < output.len() {
        if page.get(at).is_some_and(|member| member == LEFT_OUT) {
            at += 1;
            resumed = Some((at, printed));
        } else if page.get(at).is_some_and(|member| is_alike(member, &output[printed])) {
            (at, printed) = (at + 1, printed + 1);
        } else if let Some((after, end)) = resumed {
            (at, printed) = (after, end + 1);
            resumed = Some((after, end + 1));
        } else {
            return false;
        }
    }
    page[at..].iter().all(|member| member == LEFT_OUT)
}

/// Returns true if a page line and a printed line match, apart from values that differ in every run.
fn is_alike(page: &str, printed: &str) -> bool {
    leaves_out(&shape(page), &shape(printed), &|one, other| one == other)
}

/// Returns a line's words. Values that differ in every run are replaced by their kind.
fn shape(line: &str) -> Vec<String> {
    let splits = |letter: char| letter.is_whitespace() || "\"',:/()[]{}".contains(letter);
    line.split(splits).filter(|word| !word.is_empty()).map(kind).collect()
}

fn kind(word: &str) -> String {
    let word = without_suffixes(word);
    let word = word.as_str();
    let hex = |text: &str| text.chars().all(|letter| letter.is_ascii_hexdigit() || letter == '-');
    let is_uuid = |text: &str| text.len() == 36 && hex(text);
    let is_age = || {
        word.starts_with(|letter: char| letter.is_ascii_digit())
            && word.ends_with(['s', 'm', 'h'])
            && word.chars().all(|letter| letter.is_ascii_digit() || "smh".contains(letter))
    };
    // Addresses that a page sets are the same in every run, the stack's own addresses aren't.
    let is_own = |address: IpAddr| !address.to_string().starts_with("10.251.");
    let tail = word.len().checked_sub(36).and_then(|at| word.split_at_checked(at));
    if let Some((name, _)) = tail.filter(|(_, tail)| is_uuid(tail)) {
        return format!("{name}<uuid>");
    }
    // For example 12.5 or 12.5s.
    let is_seconds = || {
        let number = word.strip_suffix('s').unwrap_or(word);
        let is_whole = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_digit());
        number.split_once('.').is_some_and(|(whole, tenths)| is_whole(whole) && is_whole(tenths))
    };
    match word {
        _ if is_age() => "<age>".to_owned(),
        _ if is_seconds() => "<seconds>".to_owned(),
        _ if word.parse().is_ok_and(is_own) => "<address>".to_owned(),
        _ if word.len() == 5 && word.chars().all(|letter| letter.is_ascii_digit()) => "<port>".to_owned(),
        _ => word.to_owned(),
    }
}

/// Replaces the random suffixes of Kubernetes in an object's name: parts of five of its letters.
fn without_suffixes(name: &str) -> String {
    let is_suffix = |part: &str| {
        part.len() == 5 && part.bytes().all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter))
    };
    let (first, parts) = name.split_once('-').map_or((name, None), |(first, parts)| (first, Some(parts)));
    let parts = parts.into_iter().flat_map(|parts| parts.split('-'));
    let parts = parts.map(|part| if is_suffix(part) { "<suffix>" } else { part });
    std::iter::once(first).chain(parts).collect::<Vec<_>>().join("-")
}

#[test]
fn lines_that_a_page_leaves_out_are_not_compared() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let output = lines("begun\n  1.5s a: up\n  2.5s a: on\na: Running after 3.5 s");
    for page in [
        "begun\n…\na: Running after 9.0 s",
        "begun\n…\n  9.5s a: on\n…\na: Running after 1.5 s",
        "…",
        "…\nbegun\n 1.0s a: up\n 1.5s a: on\na: Running after 3.5 s\n…",
    ] {
        assert!(shows(&lines(page), &output), "{page}");
    }
    for page in ["begun\na: Running after 3.5 s", "…\nbegun", "…\n  1.5s a: off\n…"] {
        assert!(!shows(&lines(page), &output), "{page}");
    }
}

#[test]
fn words_that_a_page_leaves_out_are_not_compared() {
    assert!(is_alike("in …/kubeconfig now", "in /tmp/a/b/kubeconfig now"));
    assert!(is_alike("2 VMs: … Nothing", "2 VMs: a/b, a/c. Nothing"));
    assert!(!is_alike("in …/kubeconfig now", "in /tmp/kubeconfig then"));
}

#[test]
fn what_is_drawn_anew_is_not_compared() {
    assert!(is_alike(
        "web  ClusterIP 10.96.0.7  127.3.255.1 80:31234/TCP 3s",
        "web ClusterIP 10.96.9.9 127.8.255.2 80:30001/TCP 1m2s"
    ));
    assert!(is_alike("web-jwsx7-k4mqx-cloud-init", "web-z8c2d-9wwcb-cloud-init"));
    let (one, other) = ("00000000-0000-0000-0000-000000000001", "e2b8c7a0-0000-4000-8000-00000000000f");
    assert!(is_alike(&format!("data Bound pvc-{one} 2Gi"), &format!("data Bound pvc-{other} 2Gi")));
    assert!(is_alike(&format!(r#"[{{"diskUUID":"{one}"}}]"#), &format!(r#"[{{"diskUUID":"{other}"}}]"#)));
    for (one, other) in [
        ("web Bound", "web Pending"),
        ("10.251.0.20", "10.251.0.21"),
        ("Ready=True", "Ready=False"),
        ("web", "web web"),
        ("web-jwsx7", "web-jwsx"),
        ("jwsx7", "k4mqx"),
        ("pvc-1 2Gi", "pvc-1 4Gi"),
    ] {
        assert!(!is_alike(one, other), "{one} | {other}");
    }
}
