//! Computes the name of a machine's VirtualMachine, which is also the hostname and the node name, without I/O.
//!
//! The name depends only on spec.naming and the Machine's name, which don't change. It therefore identifies the VirtualMachine,
//! even in another management cluster. Secret and claim names don't depend on this name.

use api::capw::WCPMachine;
use api::vmop::VirtualMachine;
use bounds::Budget;
use gotemplate::{FunctionError, Functions, Template, exactly};
use kit::controller::controller_of;
use kit::events::describe_object;
use serde_json::{Value, json};

use crate::error::InvalidInput;

/// The remedy if another owner's object has a name that the machine needs.
pub const NAME_ADVICE: &str = "Rename or delete it, or replace the Machine";
/// The maximum length of a name, in characters. Longer names are cut off, as in Cluster API's provider for vSphere.
const LONGEST: usize = 63;
/// The memory budget, in bytes, for parsing and rendering a template. A template is limited to 1024 characters, so rendering
/// takes a few milliseconds at most and isn't cached.
const TEMPLATE_BYTES: usize = 1 << 20;

/// Returns the VirtualMachine name for a Machine: the Machine's name, or the output of the naming template.
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

/// Returns the name, or the problem if it isn't a valid object name and hostname.
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

/// Returns the error for a VirtualMachine name that belongs to another owner: another Machine's WCPMachine, or a user.
pub fn name_taken(wcp_machine: &WCPMachine, machine: &str, vm: &VirtualMachine) -> InvalidInput {
    let object = describe_object(vm);
    match controller_of::<WCPMachine, _>(vm) {
        Some(other) if wcp_machine.spec.naming.is_some() => {
            InvalidInput::VmNameTwice { object, other: other.name, machine: machine.to_owned() }
        }
        _ => InvalidInput::NameTaken { object, advice: NAME_ADVICE },
    }
}

/// The functions that naming templates can use in addition to Go's built-in ones.
struct Naming;

impl Functions for Naming {
    fn call(&self, name: &str, args: &[&Value], budget: &Budget) -> Option<Result<Value, FunctionError>> {
        let function = match name {
            "trimSuffix" => trim_suffix,
            "trunc" => truncate,
            _ => return None,
        };
        Some(exactly(args, 2).and_then(|()| {
            let of = text(args[1])?;
            // The output isn't longer than the input.
            budget.spend(of.len())?;
            Ok(function(args[0], of)?)
        }))
    }
}

/// Returns `of` without the suffix, or unchanged if it doesn't end with the suffix.
fn trim_suffix(suffix: &Value, of: &str) -> Result<Value, &'static str> {
    Ok(of.strip_suffix(text(suffix)?).unwrap_or(of).into())
}

/// Returns the first `count` characters of `of`, or the last `-count` characters if `count` is negative.
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
