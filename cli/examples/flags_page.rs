//! Writes docs/flags.md, the reference of all flags and resources of programs, to standard output. With the name of a program
//! as argument, instead writes a line with the name and default of each of the program's flags.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Arg;
use components::catalogue::{CLUSTER_API, COMPONENTS, Component, Registries};
use components::config;
use components::plan;
use components::render::{Certificates, NodeNetworkProvider, Options};
use components::settings::SettingsByProgram;
use layercake::init::programs::{find, flags};
use layercake::kube::manifest;
use serde_json::Value;

/// The beginning of the page.
const INTRODUCTION: &str = include_str!("flags_page.txt");
/// The programs whose flags have sections, with a description.
const SECTIONS: [&str; 6] =
    ["gcm", "capw", "vmop", "cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane"];

fn main() -> anyhow::Result<()> {
    if let Some(program) = std::env::args().nth(1) {
        let command = flags::command(&program);
        for arg in command.get_arguments() {
            println!("{} {}", flag(arg), default(arg, &[]));
        }
        return Ok(());
    }
    let (_, example) = INTRODUCTION.split_once("```yaml\n").unwrap_or_default();
    let (example, _) = example.split_once("```").unwrap_or_default();
    let settings =
        find(&manifest::documents(example)?).map_err(|errors| anyhow::anyhow!(errors.join("\n")))?;
    anyhow::ensure!(settings.is_some(), "the example has no settings");
    let mut text = INTRODUCTION.replace("{CLUSTER_API}", CLUSTER_API);
    text += "\n## Default resources\n\n| program | requests | limits |\n|---|---|---|\n";
    text += &resources()?;
    for program in SECTIONS {
        section(&mut text, program)?;
    }
    print!("{text}");
    Ok(())
}

/// Returns a row for each container of an installation.
fn resources() -> anyhow::Result<String> {
    let options = Options {
        registries: Registries::default(),
        certificates: Certificates::CertManager,
        networks: NodeNetworkProvider::PortGroups,
        nodes_pull_images: false,
        programs: SettingsByProgram::new(),
    };
    let components: Vec<_> = COMPONENTS.iter().collect();
    let installation = plan::installation(&options, &components, &BTreeMap::new())?;
    let mut rows = Vec::new();
    for part in &installation.parts {
        let containers = &part.deployment["spec"]["template"]["spec"]["containers"];
        for container in containers.as_array().into_iter().flatten() {
            let name = match container["name"].as_str() {
                Some("manager") | None => part.component.name,
                Some(name) => name,
            };
            let resources = &container["resources"];
            let row = format!(
                "| {name} | {} | {} |",
                amounts(&resources["requests"]),
                amounts(&resources["limits"])
            );
            // Each of Cluster API's managers has the same proxy.
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    Ok(rows.join("\n") + "\n")
}

fn amounts(amounts: &Value) -> String {
    let amounts = amounts.as_object().into_iter().flatten();
    let amounts =
        amounts.map(|(resource, amount)| format!("{resource} {}", amount.as_str().unwrap_or_default()));
    amounts.collect::<Vec<_>>().join(", ")
}

/// Appends the flags of a program.
fn section(text: &mut String, program: &str) -> anyhow::Result<()> {
    let _ =
        writeln!(text, "\n## Flags of {program}\n\n| flag | values | default | meaning |\n|---|---|---|---|");
    let is_upstream = Component::find(program).is_some_and(Component::is_upstream);
    let deployed = if is_upstream { None } else { config::manifests(program)?.deployment };
    let deployed = deployed.map(|deployment| deployment.args).unwrap_or_default();
    let command = flags::command(program);
    let mut args: Vec<_> = command.get_arguments().collect();
    args.sort_by_key(|arg| (flags::other_place(&flag(arg)).is_some(), flag(arg)));
    for arg in args {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.trim_end_matches('.').replace('|', "\\|");
        let place = flags::other_place(&flag(arg));
        let place = place.map(|place| format!(" **Cannot be set here**: {place}.")).unwrap_or_default();
        let default = default(arg, &deployed);
        let default = if default.is_empty() { default } else { format!("`{default}`") };
        let _ = writeln!(text, "| `{}` | {} | {default} | {help}.{place} |", flag(arg), values(arg));
    }
    Ok(())
}

fn flag(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().to_owned()
}

/// Returns the value in the Deployment's arguments, or the program's default.
fn default(arg: &Arg, deployed: &[String]) -> String {
    let prefix = format!("--{}=", flag(arg));
    let of_deployment = deployed.iter().rev().find_map(|arg| arg.strip_prefix(&prefix));
    let of_program = arg.get_default_values().first().filter(|_| arg.get_action().takes_values());
    let of_program = || of_program.map(|value| value.to_string_lossy().into_owned());
    of_deployment.map(str::to_owned).or_else(of_program).unwrap_or_default()
}

fn values(arg: &Arg) -> String {
    let possible: Vec<_> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let value = if possible.is_empty() { value } else { possible.join(", ") };
    if flags::is_repeatable(arg) { format!("list of {value}") } else { value }
}
