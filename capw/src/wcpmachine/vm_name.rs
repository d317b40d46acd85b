//! The name of a machine's virtual machine, which its guest and its node have, too. Pure.
//!
//! It follows from spec.naming and the Machine's name alone, and neither changes: the virtual machine is found by it, in another
//! management cluster, too. The cloud-init Secret and claims do not have it in their names.

use api::capw::WCPMachine;
use api::vmop::VirtualMachine;
use bounds::Budget;
use gotemplate::{Failure, Functions, Template, exactly};
use kit::controller::controller_of;
use kit::events::named;
use serde_json::{Value, json};

use crate::error::InvalidInput;

/// What to do about an object whose name a virtual machine needs.
pub const NAME_ADVICE: &str = "Rename or delete it, or replace the Machine";
/// The longest name that a template makes. The rest is cut off, as by Cluster API's provider for vSphere.
const LONGEST: usize = 63;
/// The bytes that a template may read and make: a template of 1024 characters takes some milliseconds for them at most, so
/// that it is carried out where it is needed.
const TEMPLATE_BYTES: usize = 1 << 20;

/// The name of the virtual machine of the Machine of this name.
pub fn vm_name(wcp_machine: &WCPMachine, machine: &str) -> Result<String, InvalidInput> {
    let Some(naming) = &wcp_machine.spec.naming else { return Ok(machine.to_owned()) };
    let template = naming.template.as_str();
    let budget = Budget::new(TEMPLATE_BYTES);
    let data = json!({ "machine": { "name": machine } });
    let rendered = Template::parse(template, &budget)
        .and_then(|parsed| parsed.render(template, &data, &Naming, &budget))
        .map_err(|error| error.to_string());
    let name = rendered.and_then(|name| check_name(name.chars().take(LONGEST).collect()));
    name.map_err(|what| InvalidInput::VmName {
        template: template.to_owned(),
        machine: machine.to_owned(),
        what,
    })
}

/// The name, if objects and hosts can have it.
fn check_name(name: String) -> Result<String, String> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.split('.').all(is_label) {
        return Ok(name);
    }
    Err(format!(
        "it produces {name:?}, but a name must consist of lower case letters, digits, hyphens and dots, and begin and end with a letter or a digit"
    ))
}

/// Why the virtual machine of our name is none of ours: another Machine was given the name, or somebody made it.
pub fn name_taken(wcp_machine: &WCPMachine, machine: &str, vm: &VirtualMachine) -> InvalidInput {
    let object = named(vm);
    match controller_of::<WCPMachine, _>(vm) {
        Some(other) if wcp_machine.spec.naming.is_some() => {
            InvalidInput::VmNameTwice { object, other: other.name, machine: machine.to_owned() }
        }
        _ => InvalidInput::NameTaken { object, advice: NAME_ADVICE },
    }
}

/// The functions of naming templates besides Go's own.
struct Naming;

impl Functions for Naming {
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Result<Value, Failure>> {
        let function = match name {
            "trimSuffix" => trim_suffix,
            "trunc" => truncate,
            _ => return None,
        };
        Some(exactly(args, 2).and_then(|()| {
            let of = text(args[1])?;
            // Neither makes more than it is given.
            budget.spend(of.len())?;
            Ok(function(args[0], of)?)
        }))
    }
}

/// The text without that end.
fn trim_suffix(suffix: &Value, of: &str) -> Result<Value, &'static str> {
    Ok(of.strip_suffix(text(suffix)?).unwrap_or(of).into())
}

/// The first so many characters, or, of a negative count, the last.
fn truncate(count: &Value, of: &str) -> Result<Value, &'static str> {
    let count = count.as_i64().ok_or("an argument is not a whole number")?;
    let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let left_out = if count < 0 { of.chars().count().saturating_sub(kept) } else { 0 };
    Ok(of.chars().skip(left_out).take(kept).collect::<String>().into())
}

fn text(value: &Value) -> Result<&str, &'static str> {
    value.as_str().ok_or("an argument is not a string")
}

#[cfg(test)]
mod tests;
