//! The program settings in a site file: flags, memory and CPU. This module doesn't perform I/O.
//!
//! A ConfigMap in the site file contains them as a YAML document. `init` checks the document against the programs' flag
//! definitions, and adds the flags and resources to their Deployments. The ConfigMap stays in the cluster, so that the next
//! `init` uses the same settings.

pub mod flags;
mod resources;
mod upstream;

use std::collections::BTreeMap;

use api::names::VMOP_NAMESPACE;
use components::catalogue::COMPONENTS;
use components::guest_proxy;
use components::settings::{ProgramSettings, SettingsByProgram};
use serde::Deserialize;
use serde_json::Value;

use resources::GivenResources;
pub use resources::find_contradictions;

/// The name of the ConfigMap, in the VM operator's namespace.
pub const CONFIG_MAP: &str = "layercake-programs";
/// The ConfigMap key that contains the document.
pub const KEY: &str = "programs";

/// One program's settings, as the document contains them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GivenSettings {
    /// Values by flag name, without hyphens in front.
    flags: BTreeMap<String, Value>,
    resources: GivenResources,
}

/// Returns the names that can have settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMPONENTS.iter().map(|component| component.name).chain([guest_proxy::CONTAINER])
}

/// Finds the settings among a site file's objects. Returns `None` if the file doesn't contain them.
///
/// # Errors
/// Returns all reasons why the settings aren't valid.
pub fn find(objects: &[Value]) -> Result<Option<SettingsByProgram>, Vec<String>> {
    let is_settings =
        |object: &&Value| object["kind"] == "ConfigMap" && object["metadata"]["name"] == CONFIG_MAP;
    let found: Vec<_> = objects.iter().filter(is_settings).collect();
    let [object] = found[..] else {
        let reason =
            || format!("the site file has {} ConfigMaps {CONFIG_MAP}, and can have one", found.len());
        return if found.is_empty() { Ok(None) } else { Err(vec![reason()]) };
    };
    let place = format!("ConfigMap {CONFIG_MAP} of the site file");
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    if namespace != VMOP_NAMESPACE {
        return Err(vec![format!(
            "{place} is in namespace {namespace}. Set its namespace to {VMOP_NAMESPACE}"
        )]);
    }
    read(&place, &object["data"]).map(Some)
}

/// Reads the settings from a stored ConfigMap's data.
///
/// # Errors
/// Returns all reasons why the settings aren't valid.
pub fn read_stored(data: &BTreeMap<String, String>) -> Result<SettingsByProgram, Vec<String>> {
    let place = format!("ConfigMap {VMOP_NAMESPACE}/{CONFIG_MAP} in the cluster");
    read(&place, &serde_json::json!(data))
}

/// Reads the settings from a ConfigMap's data. Each error begins with `place`.
fn read(place: &str, data: &Value) -> Result<SettingsByProgram, Vec<String>> {
    let keys = data.as_object().into_iter().flatten().map(|(key, _)| key);
    let mut errors: Vec<_> = keys
        .filter(|key| *key != KEY)
        .map(|key| format!("there is no key {key}. Write the settings below the key {KEY}"))
        .collect();
    let parsed = match &data[KEY] {
        Value::Null => Ok(SettingsByProgram::new()),
        Value::String(text) => parse(text),
        _ => Err(vec![format!("{KEY} must be a text. Write {KEY}: | above the settings")]),
    };
    let settings = parsed.unwrap_or_else(|found| {
        errors.extend(found);
        SettingsByProgram::new()
    });
    if errors.is_empty() {
        return Ok(settings);
    }
    Err(errors.into_iter().map(|error| format!("{place}: {error}")).collect())
}

/// Parses the document, and checks its flags and quantities. Returns all errors.
fn parse(text: &str) -> Result<SettingsByProgram, Vec<String>> {
    let given: Option<BTreeMap<String, Option<GivenSettings>>> =
        serde_saphyr::from_str(text).map_err(|error| vec![unreadable(&error)])?;
    let mut settings = SettingsByProgram::new();
    let mut errors = Vec::new();
    for (name, given) in given.unwrap_or_default() {
        let Some(program) = names().find(|known| *known == name) else {
            let all: Vec<_> = names().collect();
            errors.push(format!("there is no program {name}. The programs are {}", all.join(", ")));
            continue;
        };
        let GivenSettings { flags, resources } = given.unwrap_or_default();
        let mut of_program = Vec::new();
        let args = flags::read_arguments(program, &flags).unwrap_or_else(|found| {
            of_program.extend(found);
            Vec::new()
        });
        let (requests, limits) = resources.read().unwrap_or_else(|found| {
            of_program.extend(found);
            Default::default()
        });
        errors.extend(of_program.into_iter().map(|error| format!("{program}: {error}")));
        settings.insert(program, ProgramSettings { args, requests, limits });
    }
    if errors.is_empty() { Ok(settings) } else { Err(errors) }
}

/// Returns the message for a document that can't be parsed, without the excerpt.
fn unreadable(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().next().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    format!("{KEY}: {reason}. {} has an example", flags::PAGE)
}

/// Describes the settings in one line. Skips programs without settings.
pub fn summary(settings: &SettingsByProgram) -> String {
    let is_changed = |(_, settings): &(&&str, &ProgramSettings)| **settings != ProgramSettings::default();
    let of_program = |(name, settings): (&&str, &ProgramSettings)| {
        let ProgramSettings { args, requests, limits } = settings;
        let amounts = [("request", requests), ("limit", limits)].into_iter().flat_map(|(kind, amounts)| {
            amounts.iter().map(move |(resource, amount)| format!("{resource} {kind} {amount}"))
        });
        let all: Vec<_> = args.iter().cloned().chain(amounts).collect();
        format!("{name} {}", all.join(" "))
    };
    settings.iter().filter(is_changed).map(of_program).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
