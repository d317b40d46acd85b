//! What is fed: each parser of untrusted input, with examples of its format and what one input may cost.

use std::time::Duration;

use bounds::Budget;
use serde_json::Value;

/// One parser.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Feeds it.
    pub run: fn(&[u8]),
    /// Inputs as people write them.
    pub examples: &'static [&'static str],
    /// What its format is made of.
    pub words: &'static [&'static str],
    /// The most memory for one input, bytes.
    pub max_bytes: usize,
    /// The most time for one input, in a build that is not optimised.
    pub max_time: Duration,
}

const MIB: usize = 1 << 20;

/// All targets.
pub const TARGETS: &[Target] = &[Target {
    name: "text",
    run: |input| drop(bounds::printable(&String::from_utf8_lossy(input), 400)),
    examples: &["a plain line", "two\nlines", "\u{1b}]0;title\u{7}\u{202e}"],
    words: &["\u{1b}[31m", "\u{202e}", "\u{9b}", "é", "\r\n"],
    max_bytes: 4 * MIB,
    max_time: Duration::from_secs(1),
}];
