//! Go's built-in template functions.

use std::cmp::Ordering;

use bounds::{Budget, Exceeded};
use serde_json::{Map, Value};

use crate::functions::{FunctionError, RenderFailure, SPARSE, exactly};
use crate::value::{Held, append, copy, cost, show};

/// The value of a missing field in an object that is marked as `SPARSE`.
static EMPTY: Value = Value::String(String::new());

type Called<'a> = Result<Held<'a>, FunctionError>;

/// Returns true if Go considers the value true.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Finds an object's member by its Go field name. Ignores case if there isn't an exact match, because JSON names can begin with a
/// lowercase letter. In an object that is marked as `SPARSE`, a missing member is an empty string. The search is charged to the
/// budget.
pub(super) fn member<'v>(
    value: &'v Value,
    name: &str,
    budget: &Budget,
) -> Result<Option<&'v Value>, Exceeded> {
    let Some(map) = value.as_object() else { return Ok(None) };
    budget.spend(name.len())?;
    if let Some(value) = map.get(name) {
        return Ok(Some(value));
    }
    Ok(match respelt(map, name, budget)? {
        None if map.contains_key(SPARSE) => Some(&EMPTY),
        found => found,
    })
}

fn respelt<'v>(
    map: &'v Map<String, Value>,
    name: &str,
    budget: &Budget,
) -> Result<Option<&'v Value>, Exceeded> {
    for (key, value) in map {
        budget.spend(if key.len() == name.len() { name.len() + 1 } else { 1 })?;
        if key.eq_ignore_ascii_case(name) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Calls one of Go's built-in functions. Returns `None` if Go doesn't have a function with this name.
pub(super) fn call<'a>(name: &str, args: &[Held<'a>], budget: &Budget) -> Option<Called<'a>> {
    let order = |holds: fn(Ordering) -> bool| compared(args, budget, holds);
    Some(match name {
        "and" => needs(args, 1).map(|()| chosen(args, |value| !truth(value))),
        "or" => needs(args, 1).map(|()| chosen(args, truth)),
        "not" => exactly(args, 1).map(|()| Held::made(!truth(args[0].get()))),
        "len" => exactly(args, 1).and_then(|()| len(args[0].get(), budget)),
        "index" => needs(args, 1).and_then(|()| index(&args[0], &args[1..], budget)),
        "slice" => needs(args, 1).and_then(|()| slice(args[0].get(), &args[1..], budget)),
        "print" => print(args, budget),
        "println" => println(args, budget),
        "printf" => needs(args, 1).and_then(|()| printf(args[0].get(), &args[1..], budget)),
        "eq" => needs(args, 2).and_then(|()| any_same(args, budget)).map(Held::made),
        "ne" => exactly(args, 2).and_then(|()| any_same(args, budget)).map(|same| Held::made(!same)),
        "lt" => order(Ordering::is_lt),
        "le" => order(Ordering::is_le),
        "gt" => order(Ordering::is_gt),
        "ge" => order(Ordering::is_ge),
        _ => return None,
    })
}

fn needs(args: &[Held<'_>], least: usize) -> Result<(), FunctionError> {
    if args.len() < least {
        let counts = [least, args.len()];
        return Err(RenderFailure::with_counts("it needs at least {} arguments and has {}", &counts).into());
    }
    Ok(())
}

/// Returns the first argument for which `decides` returns true, otherwise the last argument.
fn chosen<'a>(args: &[Held<'a>], decides: impl Fn(&Value) -> bool) -> Held<'a> {
    let chosen = args.iter().find(|value| decides(value.get())).or(args.last());
    chosen.cloned().unwrap_or_else(|| Held::made(Value::Null))
}

fn len<'a>(value: &Value, budget: &Budget) -> Called<'a> {
    Ok(Held::made(match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.len(),
        Value::Object(map) => {
            budget.spend(map.len())?;
            map.keys().filter(|key| *key != SPARSE).count()
        }
        _ => return Err("only a string, a list or a map has a length".into()),
    }))
}

fn index<'a>(value: &Held<'a>, keys: &[Held<'_>], budget: &Budget) -> Called<'a> {
    value.part(budget, |value| {
        let mut at = value;
        for key in keys {
            at = element(at, key.get(), budget)?;
        }
        Ok(at)
    })
}

fn element<'v>(value: &'v Value, key: &Value, budget: &Budget) -> Result<&'v Value, FunctionError> {
    match (value, key) {
        (Value::Array(items), Value::Number(number)) => {
            let position = number.as_u64().and_then(|at| usize::try_from(at).ok());
            let item = position.and_then(|position| items.get(position));
            let outside =
                || RenderFailure::with_counts("the index is out of range: there are {}", &[items.len()]);
            Ok(item.ok_or_else(outside)?)
        }
        (Value::Object(map), Value::String(key)) => {
            budget.spend(key.len())?;
            Ok(map.get(key).unwrap_or(&Value::Null))
        }
        _ => Err("only a list can be indexed by a number, and only a map by a string".into()),
    }
}

fn slice<'a>(value: &Value, bounds: &[Held<'_>], budget: &Budget) -> Called<'a> {
    let bound = |at: usize, default: usize| match bounds.get(at).map(Held::get) {
        None => Ok(default),
        Some(bound) => bound
            .as_u64()
            .and_then(|bound| usize::try_from(bound).ok())
            .ok_or(FunctionError::from("a bound of the slice is not a position")),
    };
    let outside = || FunctionError::from("the slice is out of range");
    match value {
        Value::String(text) => {
            let part = text.get(bound(0, 0)?..bound(1, text.len())?).ok_or_else(outside)?;
            Ok(Held::made(crate::value::text(part, budget)?))
        }
        Value::Array(items) => {
            let part = items.get(bound(0, 0)?..bound(1, items.len())?).ok_or_else(outside)?;
            let part: Result<Vec<_>, _> = part.iter().map(|item| copy(item, budget)).collect();
            Ok(Held::made(part?))
        }
        _ => Err("only a string or a list can be sliced".into()),
    }
}

/// Prints like Go's `Sprint`, which adds a space between two operands if neither is a string.
fn print<'a>(args: &[Held<'_>], budget: &Budget) -> Called<'a> {
    let mut text = String::new();
    for (at, value) in args.iter().enumerate() {
        if at > 0 && !value.get().is_string() && !args[at - 1].get().is_string() {
            append(" ", &mut text, budget)?;
        }
        show(value.get(), &mut text, budget)?;
    }
    Ok(Held::made(text))
}

fn println<'a>(args: &[Held<'_>], budget: &Budget) -> Called<'a> {
    let mut text = String::new();
    for (at, value) in args.iter().enumerate() {
        append(if at > 0 { " " } else { "" }, &mut text, budget)?;
        show(value.get(), &mut text, budget)?;
    }
    append("\n", &mut text, budget)?;
    Ok(Held::made(text))
}

fn printf<'a>(format: &Value, args: &[Held<'_>], budget: &Budget) -> Called<'a> {
    let format = format.as_str().ok_or("the format is not a string")?;
    budget.spend(format.len())?;
    let mut text = String::new();
    let mut args = args.iter();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            append(c.encode_utf8(&mut [0; 4]), &mut text, budget)?;
            continue;
        }
        let verb = chars.next().ok_or("the format ends with %")?;
        if verb == '%' {
            append("%", &mut text, budget)?;
            continue;
        }
        let value = args.next().ok_or("the format uses more arguments than there are")?;
        verbatim(verb, value.get(), &mut text, budget)?;
    }
    if args.next().is_some() {
        return Err("the format uses fewer arguments than there are".into());
    }
    Ok(Held::made(text))
}

/// Appends a value according to a format verb.
fn verbatim(verb: char, value: &Value, text: &mut String, budget: &Budget) -> Result<(), FunctionError> {
    match verb {
        's' | 'v' | 'd' | 't' => show(value, text, budget)?,
        'q' => {
            let mut plain = String::new();
            show(value, &mut plain, budget)?;
            // A control character is escaped as six characters.
            budget.spend(plain.len().saturating_mul(6).saturating_add(2))?;
            append(&Value::String(plain).to_string(), text, budget)?;
        }
        'x' | 'X' | 'o' | 'b' => {
            let number = value.as_i64().ok_or("a verb of the format needs a whole number")?;
            budget.spend(64)?;
            let digits = match verb {
                'x' => format!("{number:x}"),
                'X' => format!("{number:X}"),
                'o' => format!("{number:o}"),
                _ => format!("{number:b}"),
            };
            append(&digits, text, budget)?;
        }
        _ => return Err("a verb of the format is not supported".into()),
    }
    Ok(())
}

/// Returns true if the first argument equals any other argument.
fn any_same(args: &[Held<'_>], budget: &Budget) -> Result<bool, FunctionError> {
    for other in &args[1..] {
        if same(args[0].get(), other.get(), budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn same(one: &Value, other: &Value, budget: &Budget) -> Result<bool, Exceeded> {
    if let (Some(one), Some(other)) = (one.as_f64(), other.as_f64()) {
        return Ok(one.total_cmp(&other) == Ordering::Equal);
    }
    let work = match (one, other) {
        (Value::String(one), Value::String(other)) => one.len().min(other.len()),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => cost(one),
        _ => 0,
    };
    budget.spend(work)?;
    Ok(one == other)
}

fn compared<'a>(args: &[Held<'_>], budget: &Budget, holds: fn(Ordering) -> bool) -> Called<'a> {
    exactly(args, 2)?;
    let order = match (args[0].get(), args[1].get()) {
        (Value::String(one), Value::String(other)) => {
            budget.spend(one.len().min(other.len()))?;
            one.cmp(other)
        }
        (one, other) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => return Err("only two strings or two numbers can be compared".into()),
        },
    };
    Ok(Held::made(holds(order)))
}
