//! Reads a crate's modules and the names they use, and resolves each name to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The maximum number of re-exports to follow for one path.
const MAX_DEPTH: usize = 16;

/// The file that uses a name, the file that defines it, and the name.
pub type Import = (usize, usize, String);

/// A module: a file, or an inline `mod x { … }`.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    uses: BTreeMap<String, Vec<String>>,
    /// The names that a `pub use` binds. They count as imports only if the module uses them itself.
    reexports: BTreeSet<String>,
    globs: Vec<Vec<String>>,
    paths: BTreeSet<Vec<String>>,
}

/// A file: its path below `src`, and the chain of files from the crate root to it.
pub struct SourceFile {
    pub path: PathBuf,
    pub chain: Vec<usize>,
}

/// One crate's modules.
#[derive(Default)]
pub struct ModuleTree {
    modules: Vec<Module>,
    pub files: Vec<SourceFile>,
}

impl ModuleTree {
    /// Reads a crate, starting at its root file. Skips test modules and generated modules.
    pub fn read(root: &str, read: &dyn Fn(&Path) -> Option<String>) -> Result<Self, String> {
        let mut tree = Self::default();
        let folder = Path::new("").to_path_buf();
        tree.read_file(Path::new(root).to_path_buf(), &folder, None, read)?;
        Ok(tree)
    }

    fn read_file(
        &mut self,
        path: PathBuf,
        folder: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize, String> {
        let text = read(&path).ok_or_else(|| format!("{}: cannot be read", path.display()))?;
        let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = self.files.len();
        let above = parent.map(|parent| self.files[self.modules[parent].file].chain.clone());
        let chain = above.into_iter().flatten().chain([file]).collect();
        self.files.push(SourceFile { path, chain });
        self.read_module(&syntax.items, file, folder, parent, read)
    }

    fn read_module(
        &mut self,
        items: &[syn::Item],
        file: usize,
        folder: &Path,
        parent: Option<usize>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize, String> {
        let id = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            if let syn::Item::Mod(module) = item {
                let name = module.ident.to_string();
                // This module is generated, so its imports can't be changed by hand.
                if name == "generated" {
                    continue;
                }
                let below = folder.join(&name);
                let child = if let Some((_, items)) = &module.content {
                    self.read_module(items, file, &below, Some(id), read)?
                } else {
                    let plain = folder.join(format!("{name}.rs"));
                    let path = if read(&plain).is_some() { plain } else { below.join("mod.rs") };
                    self.read_file(path, &below, Some(id), read)?
                };
                self.modules[id].children.insert(name, child);
            } else {
                self.modules[id].visit_item(item);
                self.modules[id].items.extend(defined(item));
            }
        }
        Ok(id)
    }

    /// Returns all names that files import from other files in the crate.
    pub fn imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        for (id, module) in self.modules.iter().enumerate() {
            let own = module
                .uses
                .iter()
                .filter(|(name, _)| !module.reexports.contains(*name))
                .map(|(_, path)| path);
            for path in own.chain(&module.paths) {
                imports.extend(self.resolve(id, path, 0).map(|(to, name)| (module.file, to, name)));
            }
        }
        imports.retain(|(from, to, _)| from != to);
        imports
    }

    /// Returns the names that files use from another crate, with the file: for `a::b::C`, the name is `b`.
    pub fn names_of(&self, other: &str) -> BTreeSet<(&Path, String)> {
        let paths = self.modules.iter().flat_map(|module| {
            let file = self.files[module.file].path.as_path();
            module.uses.values().chain(&module.paths).map(move |path| (file, path))
        });
        let names = paths.filter(|(_, path)| path[0] == other && path.len() > 1);
        names.map(|(file, path)| (file, path[1].clone())).collect()
    }

    /// Returns the file that defines the path's item, and the item's name. Returns `None` if the path leaves the
    /// crate or ends at a module.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" => self.descend(self.modules[from].parent?, rest, depth),
            _ if self.modules[from].children.contains_key(first) => self.descend(from, path, depth),
            _ => self.reexport(from, path, depth),
        }
    }

    fn descend(&self, module: usize, path: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[module];
        match first.as_str() {
            "self" => return self.descend(module, rest, depth),
            "super" => return self.descend(here.parent?, rest, depth),
            _ => {}
        }
        if let Some(child) =
            here.children.get(first).filter(|_| !rest.is_empty() || !here.items.contains(first))
        {
            return self.descend(*child, rest, depth);
        }
        if !here.items.contains(first) && here.uses.contains_key(first) {
            return self.reexport(module, path, depth);
        }
        self.reexport(module, path, depth).or_else(|| Some((here.file, first.clone())))
    }

    /// Resolves a path's first name through a `use` in the module.
    fn reexport(&self, module: usize, path: &[String], depth: usize) -> Option<(usize, String)> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[module];
        if depth > MAX_DEPTH || here.items.contains(first) {
            return None;
        }
        if let Some(target) = here.uses.get(first) {
            let whole = target.iter().chain(rest).cloned().collect::<Vec<_>>();
            return self.resolve(module, &whole, depth + 1);
        }
        here.globs.iter().find_map(|glob| {
            let target = self.module(module, glob)?;
            let there = &self.modules[target];
            (there.items.contains(first)
                || there.uses.contains_key(first)
                || there.children.contains_key(first))
            .then(|| self.descend(target, path, depth + 1))?
        })
    }

    /// Returns the module to which a module path leads.
    fn module(&self, from: usize, path: &[String]) -> Option<usize> {
        path.iter().enumerate().try_fold(from, |module, (at, name)| match name.as_str() {
            "crate" => Some(0),
            "self" => Some(module),
            "super" => self.modules[module].parent,
            _ => self.modules[module].children.get(name).copied().or_else(|| {
                let target = self.modules[module].uses.get(name).filter(|_| at == 0)?;
                (target.first() != Some(name)).then(|| self.module(module, target))?
            }),
        })
    }
}

impl Module {
    fn take_use(&mut self, prefix: &[String], tree: &syn::UseTree, public: bool) {
        let with = |name: &syn::Ident| prefix.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        let (bound, path) = match tree {
            syn::UseTree::Path(path) => return self.take_use(&with(&path.ident), &path.tree, public),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.take_use(prefix, tree, public));
            }
            syn::UseTree::Glob(_) => return self.globs.push(prefix.to_vec()),
            syn::UseTree::Name(name) if name.ident == "self" => (prefix.last().cloned(), prefix.to_vec()),
            syn::UseTree::Name(name) => (Some(name.ident.to_string()), with(&name.ident)),
            syn::UseTree::Rename(rename) if rename.ident == "self" => {
                (Some(rename.rename.to_string()), prefix.to_vec())
            }
            syn::UseTree::Rename(rename) => (Some(rename.rename.to_string()), with(&rename.ident)),
        };
        // Names that are bound twice, and `_`, can't be map keys, so keep only their paths.
        match bound {
            Some(bound) if bound != "_" && !self.uses.contains_key(&bound) => {
                self.reexports.extend(public.then(|| bound.clone()));
                self.uses.insert(bound, path);
            }
            _ => _ = self.paths.insert(path),
        }
    }

    /// Collects paths from unparsed tokens: macro and attribute arguments.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.take_path(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.take_path(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.take_tokens(group.stream()),
                        TokenTree::Literal(text) => {
                            let named = syn::parse_str::<syn::LitStr>(&text.to_string())
                                .and_then(|text| text.parse_with(syn::Path::parse_mod_style));
                            if let Ok(path) = named {
                                self.visit_path(&path);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        self.take_path(path);
    }

    fn take_path(&mut self, path: Vec<String>) {
        if !path.is_empty() {
            self.paths.insert(path);
        }
    }
}

impl<'a> Visit<'a> for Module {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.take_use(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.take_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &'a syn::VisRestricted) {}

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.visit_path(&call.path);
        self.take_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.take_tokens(list.tokens.clone());
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("any") && condition.contains("test")
        }
        _ => false,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Const(item) => Some(item.ident.to_string()),
        syn::Item::Enum(item) => Some(item.ident.to_string()),
        syn::Item::Fn(item) => Some(item.sig.ident.to_string()),
        syn::Item::Macro(item) => item.ident.as_ref().map(ToString::to_string),
        syn::Item::Static(item) => Some(item.ident.to_string()),
        syn::Item::Struct(item) => Some(item.ident.to_string()),
        syn::Item::Trait(item) => Some(item.ident.to_string()),
        syn::Item::Type(item) => Some(item.ident.to_string()),
        _ => None,
    }
}
