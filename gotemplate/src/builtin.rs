//! Go's own functions of templates, and how Go shows values.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::Value;

/// Marks data in which a field that is not there is empty, as a field of a Go struct is.
pub const SPARSE: &str = "\u{0}sparse";

type Called = Result<Value, String>;

/// Whether Go takes it for true.
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

/// A member by its Go name: exact, or as JSON writes it.
pub(super) fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    static EMPTY: Value = Value::String(String::new());
    let map = value.as_object()?;
    let spelt = || map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    map.get(name).or_else(spelt).or_else(|| map.contains_key(SPARSE).then_some(&EMPTY))
}

/// The value as Go prints it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let pairs = map.iter().filter(|(key, _)| *key != SPARSE);
            let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}:{}", shown(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// Calls one of Go's functions; `None` if there is none of that name.
pub(super) fn call(name: &str, args: &[Value]) -> Option<Called> {
    Some(match name {
        "and" => needs(args, 1).map(|()| chosen(args, |value| !truth(value))),
        "or" => needs(args, 1).map(|()| chosen(args, truth)),
        "not" => exactly(args, 1).map(|()| (!truth(&args[0])).into()),
        "len" => exactly(args, 1).and_then(|()| len(&args[0])),
        "index" => needs(args, 1).and_then(|()| index(&args[0], &args[1..])),
        "slice" => needs(args, 1).and_then(|()| slice(&args[0], &args[1..])),
        "print" => Ok(print(args).into()),
        "println" => Ok(format!("{}\n", args.iter().map(shown).collect::<Vec<_>>().join(" ")).into()),
        "printf" => needs(args, 1).and_then(|()| printf(&shown(&args[0]), &args[1..])),
        "eq" => needs(args, 2).map(|()| args[1..].iter().any(|other| same(&args[0], other)).into()),
        "ne" => exactly(args, 2).map(|()| (!same(&args[0], &args[1])).into()),
        "lt" => compared(args, |order| order == Ordering::Less),
        "le" => compared(args, |order| order != Ordering::Greater),
        "gt" => compared(args, |order| order == Ordering::Greater),
        "ge" => compared(args, |order| order != Ordering::Less),
        _ => return None,
    })
}

fn needs(args: &[Value], least: usize) -> Result<(), String> {
    if args.len() < least {
        return Err(format!("it needs at least {least} arguments and has {}", args.len()));
    }
    Ok(())
}

/// That many arguments are given.
pub fn exactly(args: &[Value], count: usize) -> Result<(), String> {
    if args.len() != count {
        return Err(format!("it needs {count} arguments and has {}", args.len()));
    }
    Ok(())
}

/// The first that `decides`, else the last.
fn chosen(args: &[Value], decides: impl Fn(&Value) -> bool) -> Value {
    args.iter().find(|value| decides(value)).or(args.last()).cloned().unwrap_or_default()
}

fn len(value: &Value) -> Called {
    Ok(match value {
        Value::String(text) => text.len().into(),
        Value::Array(items) => items.len().into(),
        Value::Object(map) => map.keys().filter(|key| *key != SPARSE).count().into(),
        other => return Err(format!("{} has no length", shown(other))),
    })
}

fn index(value: &Value, keys: &[Value]) -> Called {
    let mut at = value;
    for key in keys {
        at = match (at, key) {
            (Value::Array(items), Value::Number(number)) => {
                let position = number.as_u64().and_then(|at| usize::try_from(at).ok());
                let item = position.and_then(|position| items.get(position));
                item.ok_or_else(|| format!("index {number} is out of range: there are {}", items.len()))?
            }
            (Value::Object(map), Value::String(key)) => map.get(key).unwrap_or(&Value::Null),
            (other, key) => return Err(format!("{} can't be indexed by {}", shown(other), shown(key))),
        };
    }
    Ok(at.clone())
}

fn slice(value: &Value, bounds: &[Value]) -> Called {
    let bound = |at: usize, default: usize| match bounds.get(at) {
        None => Ok(default),
        Some(bound) => bound
            .as_u64()
            .and_then(|bound| usize::try_from(bound).ok())
            .ok_or_else(|| format!("{} is no position", shown(bound))),
    };
    let outside = || "the slice is out of range".to_owned();
    match value {
        Value::String(text) => {
            let part = text.get(bound(0, 0)?..bound(1, text.len())?);
            part.map(Into::into).ok_or_else(outside)
        }
        Value::Array(items) => {
            let part = items.get(bound(0, 0)?..bound(1, items.len())?);
            part.map(|part| part.to_vec().into()).ok_or_else(outside)
        }
        other => Err(format!("{} can't be sliced", shown(other))),
    }
}

/// As Go's Sprint: a space between two neither of which is a string.
fn print(args: &[Value]) -> String {
    let mut text = String::new();
    for (at, value) in args.iter().enumerate() {
        if at > 0 && !value.is_string() && !args[at - 1].is_string() {
            text.push(' ');
        }
        text.push_str(&shown(value));
    }
    text
}

fn printf(format: &str, args: &[Value]) -> Called {
    let mut text = String::new();
    let mut args = args.iter();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let verb = chars.next().ok_or("the format ends with %")?;
        if verb == '%' {
            text.push('%');
            continue;
        }
        let value = args.next().ok_or_else(|| format!("%{verb} has no argument"))?;
        match verb {
            's' | 'v' | 'd' | 't' => text.push_str(&shown(value)),
            'q' => {
                let _ = write!(text, "{}", Value::String(shown(value)));
            }
            'x' | 'X' | 'o' | 'b' => {
                let number = value.as_i64().ok_or_else(|| format!("%{verb} needs a whole number"))?;
                // Writing to a String does not fail.
                let _ = match verb {
                    'x' => write!(text, "{number:x}"),
                    'X' => write!(text, "{number:X}"),
                    'o' => write!(text, "{number:o}"),
                    _ => write!(text, "{number:b}"),
                };
            }
            other => return Err(format!("%{other} is not supported")),
        }
    }
    if args.next().is_some() {
        return Err("the format uses fewer arguments than there are".to_owned());
    }
    Ok(text.into())
}

fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other) == Ordering::Equal,
        _ => one == other,
    }
}

fn compared(args: &[Value], holds: impl Fn(Ordering) -> bool) -> Called {
    exactly(args, 2)?;
    let order = match (&args[0], &args[1]) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (one, other) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => return Err(format!("{} and {} can't be compared", shown(one), shown(other))),
        },
    };
    Ok(holds(order).into())
}
