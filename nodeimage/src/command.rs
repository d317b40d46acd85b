//! Runs external commands.

use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// The maximum number of output lines in the error for a failed command.
const TAIL: usize = 30;

/// Runs a command to completion and returns its standard output.
///
/// `what` describes the purpose in error messages and begins with a verb.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Error::Host(format!(
            "{program} cannot be run ({error}); install it, as Debian's package of apt, dpkg or util-linux"
        ))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
    Err(Error::Command { what: what.to_owned(), reason: format!("{program}: {}\n{tail}", output.status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_shows_the_end_of_its_output() {
        let error = run(Command::new("sh").args(["-c", "seq 40; echo no >&2; exit 3"]), "count").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot count: sh: exit status: 3\n12\n"), "{text}");
        assert!(text.ends_with("40\nno"), "{text}");
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program"), "try").unwrap_err().to_string();
        assert!(error.contains("no-such-program cannot be run"), "{error}");
    }
}
