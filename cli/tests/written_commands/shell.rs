//! Parses lines of shell, as far as pages use the syntax.

use crate::command::is_subcommand;

/// Returns the arguments for each `layercake` that a shell line runs.
pub fn invocations(line: &str) -> Vec<Vec<String>> {
    simple_commands(line).iter().flat_map(|words| invocations_of(words)).collect()
}

fn invocations_of(words: &[String]) -> Vec<Vec<String>> {
    if let Some(at) = words.iter().position(|word| word == "-c")
        && let Some(script) = words.get(at + 1).filter(|script| script.contains(' '))
    {
        return invocations(script);
    }
    arguments(words).map(<[String]>::to_vec).into_iter().collect()
}

/// Returns the arguments for `layercake` if the words run it directly, with cargo or through another command.
fn arguments(words: &[String]) -> Option<&[String]> {
    let first = words.iter().position(|word| word != "$" && word != "time" && !is_assignment(word))?;
    let words = &words[first..];
    if words[0] == "layercake" || words[0].ends_with("/layercake") {
        return Some(&words[1..]);
    }
    if words.len() > 2 && words[0] == "cargo" && words[1] == "run" {
        let end = words.iter().position(|word| word == "--")?;
        return runs_layercake(&words[2..end]).then(|| &words[end + 1..]);
    }
    let at = words.windows(2).position(|pair| pair[0] == "layercake" && is_subcommand(&pair[1]))?;
    Some(&words[at + 1..])
}

/// Returns true if `cargo run` with these flags runs `layercake`, the workspace's default.
fn runs_layercake(flags: &[String]) -> bool {
    let names_another = |pair: &[String]| {
        matches!(pair[0].as_str(), "-p" | "--package" | "--bin" | "--example") && pair[1] != "layercake"
    };
    !flags.windows(2).any(names_another)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns the words in each simple command of a line, without redirections and comments.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let quoted = letters.by_ref().take_while(|other| *other != letter);
                reader.word.get_or_insert_default().extend(quoted);
            }
            '\\' => reader.word.get_or_insert_default().extend(letters.next()),
            '#' if reader.word.is_none() => break,
            '|' | ';' | '&' | '(' | ')' => reader.end_command(),
            '<' if !letters.peek().is_some_and(|next| next.is_alphabetic()) => reader.redirect(),
            '>' if !reader.word.as_ref().is_some_and(|word| word.contains('<')) => reader.redirect(),
            _ if letter.is_whitespace() => reader.end_word(),
            _ => reader.word.get_or_insert_default().push(letter),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    redirected: bool,
}

impl Reader {
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.redirected) {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if !words.is_empty() {
            self.commands.push(words);
        }
    }

    /// Starts a redirection. The next word is a file, and a number before the sign is its descriptor.
    fn redirect(&mut self) {
        if self.word.as_ref().is_some_and(|word| word.chars().all(|letter| letter.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        self.redirected = true;
    }
}

#[test]
fn commands_are_found_in_lines_of_shell() {
    for (line, args) in [
        ("layercake up --detach > stack.env && . ./stack.env", "up --detach"),
        ("$ layercake lint a.yaml  # a comment", "lint a.yaml"),
        ("LAYERCAKE_CACHE=/tmp target/dist/layercake up 2>log", "up"),
        ("(umask 077; TZ=Asia/Kolkata layercake image build -o again)", "image build -o again"),
        ("unshare --user --net layercake up --nodes qemu", "up --nodes qemu"),
        ("cargo run -- up --once", "up --once"),
        ("cargo run --quiet --package layercake -- lint <file>", "lint <file>"),
        ("bash -c 'time cargo run -- up -f \"a b\"'", "up -f a b"),
        ("kubectl layercake describe tkc NAME | less", "describe tkc NAME"),
    ] {
        let found: Vec<_> = invocations(line).iter().map(|args| args.join(" ")).collect();
        assert_eq!(found, [args], "{line}");
    }
    for line in [
        "cargo run -p imports -- up",
        "govc role.create layercake System.Read",
        "kubectl get tkc # layercake up",
    ] {
        assert_eq!(invocations(line), Vec::<Vec<String>>::new(), "{line}");
    }
}
