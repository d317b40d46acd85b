//! Checks commands with the command line definition.

use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use layercake::args::Cli;

/// Returns an error with the reason if the command line refuses `args`. If `whole` is false, `args` only mention a
/// command, such as `layercake image build` in a sentence, and may omit arguments.
pub fn check(args: &[String], whole: bool) -> Result<(), String> {
    let given = args.iter().map(String::as_str).filter(|arg| !is_elision(arg));
    let Err(error) = Cli::try_parse_from(std::iter::once("layercake").chain(given)) else { return Ok(()) };
    let forgiven = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !whole,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => match error.get(ContextKind::InvalidValue) {
            // A mention may end in a flag: `layercake up -f`.
            Some(ContextValue::String(value)) if value.is_empty() => !whole,
            Some(ContextValue::String(value)) => is_placeholder(value),
            _ => false,
        },
        _ => false,
    };
    if forgiven { Ok(()) } else { Err(error.to_string().lines().next().unwrap_or_default().to_owned()) }
}

/// Returns true if `layercake` has a subcommand with this name.
pub fn is_subcommand(name: &str) -> bool {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
    });
    NAMES.iter().any(|known| known == name)
}

/// Returns true if the word stands for omitted words: `…`, `[flags]`.
fn is_elision(word: &str) -> bool {
    matches!(word, "…" | "...") || (word.starts_with('[') && word.ends_with(']'))
}

/// Returns true if the word stands for a value: `NAME`, `<name>`, `{name}`, `$NAME`.
pub fn is_placeholder(word: &str) -> bool {
    word.contains(['<', '{', '$', '…'])
        || (word.contains(char::is_alphabetic) && !word.contains(|letter: char| letter.is_lowercase()))
}

#[test]
fn mentions_may_leave_out_arguments_and_commands_may_not() {
    for mention in
        ["", "up", "image", "image build", "describe tkc", "up -f", "console NAME -n NAMESPACE", "--version"]
    {
        check(&words(mention), false).unwrap_or_else(|why| panic!("{mention}: {why}"));
    }
    for command in ["image build", "describe tkc", "up -f", "console"] {
        check(&words(command), true).unwrap_err();
    }
}

#[test]
fn placeholders_stand_for_any_value() {
    for command in [
        "up --timeout DURATION",
        "describe tkc <name> [flags]",
        "up --nodes qemu …",
        "lint {file}",
        "up --wire $WIRE",
    ] {
        check(&words(command), true).unwrap_or_else(|why| panic!("{command}: {why}"));
    }
}

#[test]
fn wrong_commands_flags_and_values_are_refused() {
    for command in
        ["dctor", "describe NAME", "describe volumes -n demo", "up --onec", "up --wire json", "down now"]
    {
        check(&words(command), false).unwrap_err();
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
