//! Finds files outside a crate's folder that the crate embeds or compiles, with `include_str!`, `include_bytes!`,
//! `include_dir!`, `include!` or `#[path]`.

use std::path::{Component, Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The shared files and folders outside all crates, each with the one crate that may embed it.
const OWNERS: [(&str, &str); 3] =
    [("components", "config"), ("cli", "docs/checks.md"), ("cli", "CHANGELOG.md")];
/// The variable that contains the crate's folder, in `env!` and in `include_dir!` paths.
const CRATE_FOLDER: &str = "CARGO_MANIFEST_DIR";

/// A crate. All paths are relative to the workspace root.
pub struct Package {
    pub folder: PathBuf,
    /// Target folders outside the crate's folder, such as test/stories.
    pub beside: Vec<PathBuf>,
}

impl Package {
    /// Parses the manifest in `folder`.
    pub fn new(folder: &str, manifest: &str) -> Self {
        let folder = PathBuf::from(folder);
        let targets = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
        let beside = targets
            .filter(|target| target.starts_with("../"))
            .filter_map(|target| plain(&folder.join(target)).parent().map(Path::to_owned))
            .collect();
        Self { folder, beside }
    }

    /// Returns the folders that contain the crate's sources.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        [&self.folder].into_iter().chain(&self.beside).map(PathBuf::as_path)
    }

    /// Returns true if the crate may embed the file.
    fn owns(&self, path: &Path) -> bool {
        let embeds =
            |(owner, shared): &(&str, &str)| self.folder == Path::new(owner) && path.starts_with(shared);
        self.folders().any(|folder| path.starts_with(folder)) || OWNERS.iter().any(embeds)
    }

    /// Returns the files outside the crate that `file` includes, in source order.
    pub fn foreign_files(&self, file: &Path, text: &str) -> Result<Vec<PathBuf>, String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        let mut included = Vec::new();
        self.take_included(tokens, file, &mut included);
        included.retain(|path| !self.owns(path));
        Ok(included)
    }

    fn take_included(&self, tokens: TokenStream, file: &Path, included: &mut Vec<PathBuf>) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match (token, tokens.get(at + 1), tokens.get(at + 2)) {
                (TokenTree::Ident(name), Some(TokenTree::Punct(mark)), Some(TokenTree::Group(arguments)))
                    if mark.as_char() == '!' && is_include(&name.to_string()) =>
                {
                    included.push(self.included(arguments.stream(), file));
                }
                (TokenTree::Punct(hash), Some(TokenTree::Group(attribute)), _)
                    if hash.as_char() == '#' && attribute.delimiter() == Delimiter::Bracket =>
                {
                    let mut tokens = attribute.stream().into_iter();
                    if tokens.next().is_some_and(|token| token.to_string() == "path") {
                        included.push(self.included(tokens.collect(), file));
                    }
                }
                _ => {}
            }
            if let TokenTree::Group(group) = token {
                self.take_included(group.stream(), file, included);
            }
        }
    }

    /// Returns the path in macro arguments: their string literals, joined like `concat!` does.
    fn included(&self, arguments: TokenStream, file: &Path) -> PathBuf {
        let folder = self.folder.to_string_lossy();
        let mut literals = Vec::new();
        take_literals(arguments, &mut literals);
        let mut is_absolute = false;
        let mut path = String::new();
        for literal in literals {
            is_absolute |= literal.contains(CRATE_FOLDER);
            path += &literal.replace(&format!("${CRATE_FOLDER}"), &folder).replace(CRATE_FOLDER, &folder);
        }
        let base = file.parent().filter(|_| !is_absolute).unwrap_or(Path::new(""));
        plain(&base.join(path))
    }
}

fn is_include(name: &str) -> bool {
    ["include", "include_str", "include_bytes", "include_dir"].contains(&name)
}

fn take_literals(tokens: TokenStream, literals: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => take_literals(group.stream(), literals),
            TokenTree::Literal(literal) => {
                literals.extend(
                    syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value()),
                );
            }
            _ => {}
        }
    }
}

/// Removes `.` and resolves `..`, except at the path's start.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some_and(|name| name != "..") => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}
