//! `layercake completion`: shell completion scripts.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;

/// Returns the completion script for a shell.
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "layercake", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_command_and_flag_is_completed_in_every_shell() {
        let command = Cli::command();
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for below in command.get_subcommands() {
                assert!(script.contains(below.get_name()), "{shell}: {}", below.get_name());
                let flags = below.get_arguments().filter_map(|arg| arg.get_long());
                for flag in flags {
                    assert!(script.contains(flag), "{shell}: {} --{flag}", below.get_name());
                }
            }
        }
    }
}
