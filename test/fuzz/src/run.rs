//! Runs one target with many inputs, and measures each.

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::input::InputGenerator;
use crate::memory::MEMORY;
use crate::targets::{CANARY, FuzzTarget};

/// An input that takes this many times its target's time ends the program, because it may hang.
const HANGS_AFTER: u32 = 20;
/// The maximum number of attempts with a slow input, because other programs may have used the CPU.
const TRIES: usize = 4;

/// The limit for a target's inputs: a count or a duration.
#[derive(Clone, Copy)]
pub enum Amount {
    Runs(u64),
    /// Inputs are generated until this time has passed.
    Time(Duration),
}

/// A target's results.
pub struct Report {
    name: &'static str,
    runs: u64,
    most_bytes: usize,
    longest: Duration,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<24} {:>8} inputs in {:>6.1} s, at most {:>8} kB and {:>6.1} ms",
            self.name,
            self.runs,
            self.took.as_secs_f64(),
            self.most_bytes >> 10,
            self.longest.as_secs_f64() * 1000.0
        )
    }
}

/// An input that failed.
pub struct FailedInput {
    what: String,
    path: Option<PathBuf>,
}

impl fmt::Display for FailedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.path {
            Some(path) => write!(f, "; the input is in {}: repeat it with --input", path.display()),
            None => Ok(()),
        }
    }
}

/// The cost of one input.
#[derive(Clone, Copy, Default)]
struct Cost {
    bytes: usize,
    time: Duration,
}

/// The current input, for the watchdog.
static CURRENT: Mutex<Option<Current>> = Mutex::new(None);
static NUMBER: AtomicU64 = AtomicU64::new(0);

struct Current {
    number: u64,
    since: Instant,
    limit: Duration,
    path: PathBuf,
    input: Vec<u8>,
}

/// Runs a target.
///
/// # Errors
/// Returns the first input that fails.
pub fn target(
    target: &'static FuzzTarget,
    amount: Amount,
    seed: u64,
    folder: &Path,
) -> Result<Report, FailedInput> {
    let began = Instant::now();
    let mut source = InputGenerator::new(seed, target.examples, target.words);
    let mut report =
        Report { name: target.name, runs: 0, most_bytes: 0, longest: Duration::ZERO, took: Duration::ZERO };
    watch();
    loop {
        let done = match amount {
            Amount::Runs(runs) => report.runs >= runs,
            Amount::Time(time) => began.elapsed() >= time,
        };
        if done {
            report.took = began.elapsed();
            return Ok(report);
        }
        let input = source.next();
        let path = folder.join(format!("{}-{}", target.name, digest(&input)));
        let cost = bear(target, &input, &path).map_err(|what| {
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, &input));
            FailedInput { what, path: written.is_ok().then_some(path) }
        })?;
        report.runs += 1;
        report.most_bytes = report.most_bytes.max(cost.bytes);
        report.longest = report.longest.max(cost.time);
    }
}

/// Runs a target with a file's content.
///
/// # Errors
/// Returns an error if the file can't be read or the input fails.
pub fn once(target: &'static FuzzTarget, path: &Path) -> Result<Report, FailedInput> {
    let began = Instant::now();
    let input = fs::read(path)
        .map_err(|error| FailedInput { what: format!("{}: {error}", path.display()), path: None })?;
    let cost =
        bear(target, &input, path).map_err(|what| FailedInput { what, path: Some(path.to_owned()) })?;
    let took = began.elapsed();
    Ok(Report { name: target.name, runs: 1, most_bytes: cost.bytes, longest: cost.time, took })
}

/// Returns the input's cost, or an error if it exceeds the target's limits.
fn bear(target: &FuzzTarget, input: &[u8], path: &Path) -> Result<Cost, String> {
    let mut cost = Cost::default();
    for _ in 0..TRIES {
        cost = measure(target, input, path)?;
        if cost.bytes > target.max_bytes {
            return Err(format!("{} bytes of memory, {} are allowed", cost.bytes, target.max_bytes));
        }
        if cost.time <= target.max_time {
            return Ok(cost);
        }
    }
    Err(format!("it takes {:?}, {:?} are allowed", cost.time, target.max_time))
}

fn measure(target: &FuzzTarget, input: &[u8], path: &Path) -> Result<Cost, String> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let limit = target.max_time * HANGS_AFTER;
    let (input_kept, path) = (input.to_vec(), path.to_owned());
    current().replace(Current { number, since: Instant::now(), limit, path, input: input_kept });
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let began = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let cost = Cost { time: began.elapsed(), bytes: MEMORY.peak_usage().saturating_sub(before) };
    current().take();
    let messages = ended.map_err(|_| "it panics".to_owned())?;
    match messages.iter().find(|message| message.contains(CANARY)) {
        Some(message) => Err(format!("a message quotes a Secret: {message}")),
        None => Ok(cost),
    }
}

fn current() -> MutexGuard<'static, Option<Current>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the watchdog, which ends the program if an input hangs.
fn watch() {
    static WATCHING: std::sync::Once = std::sync::Once::new();
    WATCHING.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(200));
                let Some(hangs) = current().take_if(|now| now.since.elapsed() > now.limit) else { continue };
                let _ = hangs.path.parent().map(fs::create_dir_all);
                let _ = fs::write(&hangs.path, &hangs.input);
                let (number, path) = (hangs.number, hangs.path.display());
                eprintln!("input {number} does not end within {:?}; it is in {path}", hangs.limit);
                std::process::exit(1);
            }
        });
    });
}

fn digest(input: &[u8]) -> String {
    Sha256::digest(input).iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
