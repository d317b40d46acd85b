//! Tests that the stories, which are the end-to-end tests in `test/stories`, run the command examples.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use layercake::args::{Cli, examples};

use crate::{command, shell};

/// A command and its flags. Flags have their long names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    command: String,
    flags: BTreeSet<String>,
}

impl Shape {
    /// Returns the shape of arguments, or `None` if they don't begin with a command.
    fn of(args: &[String]) -> Option<Self> {
        let mut definition = Cli::command();
        let mut path = Vec::new();
        let mut args = args.iter().peekable();
        while let Some(below) = args.peek().and_then(|name| definition.find_subcommand(name)) {
            path.push(below.get_name().to_owned());
            definition = below.clone();
            args.next();
        }
        let flags = args.filter_map(|arg| long_name(&definition, arg)).collect();
        (!path.is_empty()).then(|| Self { command: path.join(" "), flags })
    }

    /// Returns true if a run of `other` also shows the effect of this command. Ignores the flags for namespaces.
    fn is_shown_by(&self, other: &Self) -> bool {
        let mut flags =
            self.flags.iter().filter(|flag| !["namespace", "all-namespaces"].contains(&flag.as_str()));
        self.command == other.command && flags.all(|flag| other.flags.contains(flag))
    }
}

/// Returns the long name of the flag in an argument, or `None` if the argument isn't a known flag.
fn long_name(command: &Command, arg: &str) -> Option<String> {
    let named = |name: &str| {
        command.get_arguments().find(|known| {
            known.get_long() == Some(name) || known.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
    };
    let known = match (arg.strip_prefix("--"), arg.strip_prefix('-')) {
        (Some(long), _) => named(long.split('=').next()?),
        (None, Some(short)) => {
            let short = short.chars().next()?;
            command.get_arguments().find(|known| known.get_short() == Some(short))
        }
        (None, None) => None,
    };
    Some(known?.get_long().unwrap_or_default().to_owned())
}

/// Returns the lists in a Rust source whose first item is a command, such as `["site", "stop"]`. Items that aren't
/// literals become empty words.
fn lists(source: &str) -> Vec<Vec<String>> {
    let starts = source.match_indices('[').map(|(at, _)| &source[at + 1..]);
    let lists = starts.map(words);
    lists.filter(|words| words.first().is_some_and(|word| command::is_subcommand(word))).collect()
}

fn words(list: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut depth, mut rest) = (0_u32, list);
    while let Some(letter) = rest.chars().next() {
        let mut length = letter.len_utf8();
        match letter {
            '"' => {
                let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
                if depth == 0 {
                    rest[1..end].trim_end_matches('"').clone_into(words.last_mut().unwrap());
                }
                length = end;
            }
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' if depth == 0 => break,
            ']' | ')' | '}' => depth -= 1,
            ',' if depth == 0 => words.push(String::new()),
            _ => {}
        }
        rest = &rest[length..];
    }
    words
}

/// Returns the beginnings of the code blocks that a story skips.
fn skipped(source: &str) -> Vec<&str> {
    source.split("page.skip(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the commands on a page whose blocks a story runs: prompt lines, scripts and, if `indented` is true, indented
/// lines.
fn typed(page: &str, indented: bool) -> Vec<String> {
    let mut commands = Vec::new();
    let mut language = "";
    for line in page.replace("\\\n", " ").lines() {
        if let Some(mark) = line.strip_prefix("```") {
            language = match (mark, language) {
                ("console", _) => "console",
                ("sh", _) => "sh",
                _ => "",
            };
        } else if language == "sh" || (indented && line.starts_with("    ")) {
            commands.push(line.to_owned());
        } else if language == "console" {
            commands.extend(line.strip_prefix("$ ").map(str::to_owned));
        }
    }
    commands
}

#[test]
fn stories_run_the_examples_of_every_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let stories = root.join("test/stories");
    let sources: Vec<_> = crate::files(root).into_iter().filter(|path| path.starts_with(&stories)).collect();
    let sources: Vec<_> = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let skipped: Vec<_> = sources.iter().flat_map(|source| skipped(source)).collect();
    // .ci/run builds an image, because that takes minutes and stories with QEMU nodes require the image.
    let script = std::fs::read_to_string(root.join(".ci/run")).unwrap();
    let of_script = script.lines().filter_map(|line| line.trim_start().strip_prefix("program "));
    let mut run: Vec<Shape> =
        of_script.flat_map(shell::invocations).filter_map(|args| Shape::of(&args)).collect();
    for source in &sources {
        run.extend(lists(source).iter().filter_map(|args| Shape::of(args)));
    }
    for page in std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = page.file_name().unwrap().to_str().unwrap();
        let quoted = format!("\"{name}\"");
        if page.extension().is_none_or(|extension| extension != "md")
            || !sources.iter().any(|source| source.contains(&quoted))
        {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        let block_by_block = format!("page_blocks::read({quoted})");
        let all = sources.iter().any(|source| source.contains(&block_by_block));
        let is_run = |line: &String| !skipped.iter().any(|begins| line.trim_start().starts_with(begins));
        let commands =
            typed(&text, all).into_iter().filter(is_run).flat_map(|command| shell::invocations(&command));
        run.extend(commands.filter_map(|args| Shape::of(&args)));
    }
    let mut missing = Vec::new();
    for (command, examples) in examples::ALL {
        for example in *examples {
            let args: Vec<_> =
                example.split(" > ").next().unwrap().split(' ').skip(1).map(str::to_owned).collect();
            let shape = Shape::of(&args).expect("a command");
            assert_eq!(shape.command, *command);
            if !run.iter().any(|run| shape.is_shown_by(run)) {
                missing.push(*example);
            }
        }
    }
    assert!(missing.is_empty(), "examples that no story runs:\n{}", missing.join("\n"));
}

#[test]
fn a_list_of_words_is_a_command() {
    let source = r#"home.layercake(&["site", "simulate", "--namespace", name(["a"], b)], 0); ["other"]; run(["up", "-f", &file])"#;
    let found = lists(source);
    assert_eq!(found, [vec!["site", "simulate", "--namespace", ""], vec!["up", "-f", ""]]);
    let shape = Shape::of(&found[1]).unwrap();
    assert_eq!(shape.flags, BTreeSet::from(["filename".to_owned()]));
    let example = Shape::of(&["up".to_owned()]).unwrap();
    assert!(example.is_shown_by(&shape) && !shape.is_shown_by(&example));
}
