//! The programs' flag definitions, and checks for flags in a site file.

use std::collections::BTreeMap;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use components::settings::SettingsByProgram;
use serde_json::Value;

use super::upstream;

/// The page with all flags.
pub(super) const PAGE: &str = "docs/flags.md";

/// Flags that a site file can't set because they must fit the Deployment.
const OF_DEPLOYMENT: [&str; 7] = [
    "kubeconfig",
    "diagnostics-address",
    "health-address",
    "leader-elect",
    "leader-election-namespace",
    "webhook-address",
    "webhook-cert-dir",
];
/// Flags that name files in a container. On a bootstrap cluster, Layercake sets them itself.
const OF_CONTAINER: [&str; 2] = ["webhook-client-ca", "webhook-conversion-key"];

/// Returns a program's flag definitions. Cluster API's managers have only the flags that a site file can set.
pub fn command(program: &str) -> Command {
    match program {
        "gcm" => gcm::command(),
        "capw" => capw::command(),
        "vmop" => vmop::command(),
        name => upstream::command(name),
    }
}

/// Returns how to set a flag that a site file can't set below a program, or `None` if the site file can set it.
pub fn other_place(flag: &str) -> Option<&'static str> {
    match flag {
        "nodes-pull-images" => {
            Some("pass --nodes-pull-images to layercake init or layercake bootstrap start")
        }
        "network-provider" => Some("set NetworkProvider in the provider configuration of the site file"),
        flag if OF_DEPLOYMENT.contains(&flag) => Some("init sets it to fit the Deployment"),
        _ => None,
    }
}

/// Returns the arguments for a program's flags, or all errors.
pub(super) fn read_arguments(
    program: &str,
    flags: &BTreeMap<String, Value>,
) -> Result<Vec<String>, Vec<String>> {
    let command = command(program);
    let (mut args, mut errors) = (Vec::new(), Vec::new());
    for (flag, value) in flags {
        match read_argument(&command, flag, value) {
            Ok(read) => args.extend(read),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(args) } else { Err(errors) }
}

fn read_argument(command: &Command, flag: &str, value: &Value) -> Result<Vec<String>, String> {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(flag)) else {
        return Err(unknown(command, flag));
    };
    if let Some(place) = other_place(flag) {
        return Err(format!("flag {flag} cannot be set here: {place}"));
    }
    let values = texts(value).ok_or_else(|| {
        format!("flag {flag} needs a value: a text, a number, true or false, or a list of these")
    })?;
    if value.is_array() && !is_repeatable(arg) {
        return Err(format!("flag {flag} has one value, not a list"));
    }
    let args: Vec<_> = values.into_iter().map(|value| format!("--{flag}={value}")).collect();
    let line = std::iter::once(command.get_name().to_owned()).chain(args.iter().cloned());
    match command.clone().try_get_matches_from(line) {
        Ok(_) => Ok(args),
        Err(error) => Err(reason(&error)),
    }
}

/// Returns true if a flag can be repeated, and the program uses all values.
pub fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Returns a flag's value as texts, or `None` if the value is neither a scalar nor a list that contains only scalars.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Number(_) | Value::Bool(_) => Some(vec![value.to_string()]),
        Value::Array(values) => {
            let one = |value: &Value| if value.is_array() { None } else { texts(value) };
            Some(values.iter().map(one).collect::<Option<Vec<_>>>()?.concat())
        }
        Value::Null | Value::Object(_) => None,
    }
}

/// Returns the message for an unknown flag, with the most similar flag.
fn unknown(command: &Command, flag: &str) -> String {
    if command.get_arguments().next().is_none() {
        return format!("flag {flag} cannot be set: only resources can be set for this program");
    }
    let name = flag.trim_start_matches('-');
    let is_known = |name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    let similar = if is_known(name) { Some(name.to_owned()) } else { similar(command, name) };
    let question = similar.map(|similar| format!("Did you mean {similar}? ")).unwrap_or_default();
    format!("there is no flag {flag} that you can set. {question}{PAGE} lists all flags")
}

/// Returns the flag that clap suggests instead of an unknown one.
fn similar(command: &Command, flag: &str) -> Option<String> {
    let line = [command.get_name().to_owned(), format!("--{flag}=")];
    let error = command.clone().try_get_matches_from(line).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(text) => Some(text.trim_start_matches('-').split([' ', '=']).next()?.to_owned()),
        _ => None,
    }
}

/// Returns the reason why clap refuses a value, without usage and tips.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let lines = text.strip_prefix("error: ").unwrap_or(text).lines().map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the arguments for programs that run as processes on this machine, by component name. Leaves out flags that
/// name files in a container.
pub fn local_arguments(settings: &SettingsByProgram) -> BTreeMap<String, Vec<String>> {
    let is_of_container = |arg: &String| {
        let flag = arg.trim_start_matches('-').split('=').next().unwrap_or_default();
        OF_CONTAINER.contains(&flag)
    };
    let of_program = |(name, settings): (&&'static str, &components::settings::ProgramSettings)| {
        let args: Vec<_> = settings.args.iter().filter(|arg| !is_of_container(arg)).cloned().collect();
        (!args.is_empty()).then(|| ((*name).to_owned(), args))
    };
    settings.iter().filter_map(of_program).collect()
}
