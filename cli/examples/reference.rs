//! Writes docs/cli.md, the command line reference, to standard output. Generates it from the command line definition.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use layercake::args::{Cli, examples};
use layercake::terminal::exit::ExitStatus;

fn main() {
    let mut command = Cli::command();
    command.build();
    let mut text = String::from(
        "<!-- Written by hack/generate from cli/src/args.rs. Do not edit. -->\n# The `layercake` command\n\n",
    );
    let _ = writeln!(text, "{}\n", about(&command));
    let _ = writeln!(
        text,
        "If you install it as `kubectl-layercake` on the PATH, it is a kubectl plugin: `kubectl layercake describe tkc NAME`.\n"
    );
    let global = command.get_arguments().find(|arg| arg.is_global_set());
    if let Some((flag, help)) = global.and_then(|arg| Some((name(arg), arg.get_help()?.to_string()))) {
        let _ = writeln!(text, "Every command has the flag `{flag}`. {help}.\n");
    }
    section(&mut text, &command, "layercake");
    text += "## Exit status\n\n| status | meaning | what you can do |\n|---|---|---|\n";
    for status in ExitStatus::ALL {
        let (meaning, next) = status.meaning();
        let _ = writeln!(text, "| {} | {meaning} | {next} |", status.number());
    }
    text += "\n## Environment\n\n| variable | meaning |\n|---|---|\n";
    for (variable, meaning) in [
        ("`KUBECONFIG`", "the cluster that `describe` reads, as for kubectl"),
        (
            "`LAYERCAKE_CACHE`",
            "the folder for built tools; by default `layercake` in the user's cache folder",
        ),
        (
            "`XDG_STATE_HOME`",
            "the folder `layercake` in it has the bootstrap clusters, the simulated site and the stack of `up --detach`; by default `~/.local/state`",
        ),
        (
            "`LAYERCAKE_TOOLS`",
            "a folder with a release's programs, as in `lib/layercake/tools` in its archive. Layercake looks there before it looks elsewhere",
        ),
        (
            "`KUBEBUILDER_ASSETS`, `PATH`",
            "where Layercake looks for programs of the right version before it builds them",
        ),
        (
            "`RUST_LOG`",
            "the diagnostics of `layercake` itself, as directives of `tracing`, instead of `-v`. Detailed levels of other crates can show tokens, which `-v` never does",
        ),
    ] {
        let _ = writeln!(text, "| {variable} | {meaning} |");
    }
    print!("{text}");
}

/// Appends the section of a command, and the sections of its subcommands.
fn section(text: &mut String, command: &Command, path: &str) {
    let shown: Vec<_> = command
        .get_subcommands()
        .filter(|below| below.get_name() != "help" && !below.is_hide_set())
        .collect();
    if path != "layercake" {
        let _ = writeln!(text, "## {path}\n\n{}\n", about(command));
    }
    let alone = !command.is_subcommand_required_set();
    if shown.is_empty() || alone && path != "layercake" {
        let mut usage = command.clone();
        let usage = usage.render_usage().to_string();
        // The second usage line describes the subcommands, which have their own sections.
        let usage = usage.trim_start_matches("Usage: ").lines().next().unwrap_or_default();
        let _ = writeln!(text, "    {usage}\n");
        options(text, command);
        let examples = examples::of(path.trim_start_matches("layercake "));
        if !examples.is_empty() {
            let _ = writeln!(text, "Examples:\n\n    {}\n", examples.join("\n    "));
        }
    }
    if !shown.is_empty() {
        text.push_str("| command | description |\n|---|---|\n");
        for below in &shown {
            let _ = writeln!(text, "| `{path} {}` | {} |", below.get_name(), about(below));
        }
        text.push('\n');
    }
    for below in shown {
        section(text, below, &format!("{path} {}", below.get_name()));
    }
}

fn options(text: &mut String, command: &Command) {
    let shown = |arg: &&Arg| {
        !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help" && arg.get_id() != "version"
    };
    let all: Vec<_> = command.get_arguments().filter(shown).collect();
    if all.is_empty() {
        return;
    }
    text.push_str("| argument | meaning |\n|---|---|\n");
    for arg in all {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let flag = arg.get_action().takes_values();
        let default = if flag && !default.is_empty() {
            format!(" (default: `{}`)", default.join(", "))
        } else {
            String::new()
        };
        let _ = writeln!(text, "| `{}` | {help}{default} |", name(arg).replace('|', "\\|"));
    }
    text.push('\n');
}

/// Returns an argument as the reference shows it, such as `-f, --filename <MANIFEST>`.
fn name(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let placeholder = arg
        .get_value_names()
        .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let value = if values.is_empty() || !arg.get_action().takes_values() {
        placeholder.map(|name| format!("<{name}>")).unwrap_or_default()
    } else {
        values.join("|")
    };
    let value = if arg.get_action().takes_values() { value } else { String::new() };
    let flags: Vec<_> = arg
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(arg.get_long().map(|long| format!("--{long}")))
        .collect();
    let more = if arg.is_positional() && arg.get_num_args().is_some_and(|count| count.max_values() > 1) {
        "..."
    } else {
        ""
    };
    format!("{} {value}{more}", flags.join(", ")).trim().to_owned()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}
