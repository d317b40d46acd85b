//! The parser, which builds nodes from text and actions.

use std::collections::VecDeque;

use serde_json::Value;

use crate::ast::{Node, Pipeline, Root, Term};
use crate::error::Fault;
use crate::lex::{Kind, Piece, Token};

/// The maximum nesting depth.
const DEEPEST: usize = 64;
const UNSUPPORTED: &str = "define, template, block, break and continue are not supported";
const UNCLOSED: &str = "if, range or with has no end";

/// Builds the syntax tree from a template's text and action pieces. Fails if an action is invalid or unsupported, or if `else` or
/// `end` doesn't match an `if`, `range` or `with`.
pub(super) fn parse(pieces: Vec<Piece>) -> Result<Vec<Node>, Fault> {
    let mut parser = Parser { pieces: pieces.into(), depth: 0 };
    let (nodes, end) = parser.list()?;
    match end {
        End::Text => Ok(nodes),
        End::Close(at) => Err(Fault::new(at, "end without if, range or with")),
        End::Else(at, _) => Err(Fault::new(at, "else without if, range or with")),
    }
}

struct Parser {
    pieces: VecDeque<Piece>,
    depth: usize,
}

/// The reason why a node list ends.
enum End {
    Text,
    Close(usize),
    Else(usize, Tokens),
}

impl Parser {
    fn list(&mut self) -> Result<(Vec<Node>, End), Fault> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.pop_front() {
            let (at, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(at, tokens) => (at, tokens),
            };
            let mut tokens = Tokens { open: at, left: tokens.into(), depth: 0 };
            match tokens.keyword().as_deref() {
                Some("end") => return tokens.done().map(|()| (nodes, End::Close(at))),
                Some("else") => return Ok((nodes, End::Else(at, tokens))),
                Some("if") => nodes.push(self.nested(at, |parser| parser.branches(at, tokens))?),
                Some("range") => nodes.push(self.nested(at, |parser| parser.range(at, tokens))?),
                Some("with") => nodes.push(self.nested(at, |parser| parser.with(at, tokens))?),
                Some(_) => return Err(Fault::new(at, UNSUPPORTED)),
                None => nodes.push(tokens.statement()?),
            }
        }
        Ok((nodes, End::Text))
    }

    fn nested(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<Node, Fault>,
    ) -> Result<Node, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Fault::new(at, "nested too deeply"));
        }
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn branches(&mut self, at: usize, mut tokens: Tokens) -> Result<Node, Fault> {
        let mut branches = Vec::new();
        loop {
            let condition = tokens.whole()?;
            let (body, end) = self.list()?;
            branches.push((condition, body));
            let otherwise = match end {
                End::Text => return Err(Fault::new(at, UNCLOSED)),
                End::Close(_) => Vec::new(),
                End::Else(_, mut more) => match more.keyword().as_deref() {
                    Some("if") => {
                        tokens = more;
                        continue;
                    }
                    _ => self.last(at, &more)?,
                },
            };
            return Ok(Node::If { branches, otherwise });
        }
    }

    fn range(&mut self, at: usize, mut tokens: Tokens) -> Result<Node, Fault> {
        let names = tokens.declared()?;
        let over = tokens.whole()?;
        let (body, otherwise) = self.body(at)?;
        Ok(Node::Range { names, over, body, otherwise })
    }

    fn with(&mut self, at: usize, mut tokens: Tokens) -> Result<Node, Fault> {
        let name = tokens.declared()?.pop();
        let of = tokens.whole()?;
        let (body, otherwise) = self.body(at)?;
        Ok(Node::With { name, of, body, otherwise })
    }

    fn body(&mut self, at: usize) -> Result<(Vec<Node>, Vec<Node>), Fault> {
        match self.list()? {
            (_, End::Text) => Err(Fault::new(at, UNCLOSED)),
            (body, End::Close(_)) => Ok((body, Vec::new())),
            (body, End::Else(_, more)) => Ok((body, self.last(at, &more)?)),
        }
    }

    /// Parses the nodes between a plain `else` and its `end`.
    fn last(&mut self, at: usize, rest: &Tokens) -> Result<Vec<Node>, Fault> {
        rest.done()?;
        match self.list()? {
            (nodes, End::Close(_)) => Ok(nodes),
            (_, End::Else(at, _)) => Err(Fault::new(at, "a second else")),
            (_, End::Text) => Err(Fault::new(at, UNCLOSED)),
        }
    }
}

/// An action's tokens that are not parsed yet.
struct Tokens {
    open: usize,
    left: VecDeque<Token>,
    depth: usize,
}

const KEYWORDS: [&str; 10] =
    ["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];

impl Tokens {
    fn at(&self) -> usize {
        self.left.front().map_or(self.open, |token| token.at)
    }

    fn keyword(&mut self) -> Option<String> {
        let Kind::Word(word) = &self.left.front()?.kind else { return None };
        let word = word.clone();
        KEYWORDS.contains(&word.as_str()).then(|| self.left.pop_front())?;
        Some(word)
    }

    fn done(&self) -> Result<(), Fault> {
        if self.left.is_empty() { Ok(()) } else { Err(Fault::new(self.at(), "nothing can follow here")) }
    }

    fn statement(&mut self) -> Result<Node, Fault> {
        let name = match (self.left.front(), self.left.get(1)) {
            (Some(Token { kind: Kind::Variable(name), .. }), Some(Token { kind, .. })) => match kind {
                Kind::Declare => Some((true, name.clone())),
                Kind::Assign => Some((false, name.clone())),
                _ => None,
            },
            _ => None,
        };
        let Some((declares, name)) = name else { return self.whole().map(Node::Emit) };
        self.left.drain(..2);
        Ok(Node::Set { declares, name, value: self.whole()? })
    }

    /// Parses the variables before `:=` in `range` and `with`. Returns an empty list if there is no `:=`.
    fn declared(&mut self) -> Result<Vec<String>, Fault> {
        let Some(end) = self.left.iter().position(|token| token.kind == Kind::Declare) else {
            return Ok(Vec::new());
        };
        let names: Vec<_> = self.left.drain(..=end).collect();
        let mut declared = Vec::new();
        for token in names {
            match token.kind {
                Kind::Variable(name) if declared.len() < 2 => declared.push(name),
                Kind::Mark(',') | Kind::Declare => {}
                _ => return Err(Fault::new(token.at, "only variables can precede :=")),
            }
        }
        Ok(declared)
    }

    /// Parses a pipeline that extends to the action's end.
    fn whole(&mut self) -> Result<Pipeline, Fault> {
        let pipeline = self.pipeline()?;
        self.done()?;
        Ok(pipeline)
    }

    fn pipeline(&mut self) -> Result<Pipeline, Fault> {
        let at = self.at();
        let mut commands = vec![Vec::new()];
        while let Some(token) = self.left.front() {
            match token.kind {
                Kind::Mark(')') => break,
                Kind::Mark('|') => {
                    self.left.pop_front();
                    commands.push(Vec::new());
                }
                _ => {
                    let term = self.term()?;
                    if let Some(command) = commands.last_mut() {
                        command.push(term);
                    }
                }
            }
        }
        if commands.iter().any(Vec::is_empty) {
            return Err(Fault::new(at, "a value is missing"));
        }
        Ok(Pipeline { at, commands })
    }

    fn term(&mut self) -> Result<Term, Fault> {
        let Some(Token { at, kind, .. }) = self.left.pop_front() else {
            return Err(Fault::new(self.open, "a value is missing"));
        };
        let mut fields = Vec::new();
        let root = match kind {
            Kind::Dot => Root::Dot,
            Kind::Field(name) => {
                fields.push(name);
                Root::Dot
            }
            Kind::Variable(name) => Root::Variable(name),
            Kind::Literal(value) => Root::Literal(value),
            Kind::Word(word) => match word.as_str() {
                "true" => Root::Literal(Value::Bool(true)),
                "false" => Root::Literal(Value::Bool(false)),
                "nil" => Root::Literal(Value::Null),
                _ => Root::Function(word),
            },
            Kind::Mark('(') => Root::Nested(self.parenthesised(at)?),
            Kind::Mark(_) | Kind::Declare | Kind::Assign => {
                return Err(Fault::new(at, "a value is expected here"));
            }
        };
        while let Some(Token { spaced: false, kind: Kind::Field(name), .. }) = self.left.front() {
            fields.push(name.clone());
            self.left.pop_front();
        }
        Ok(Term { at, root, fields })
    }

    fn parenthesised(&mut self, at: usize) -> Result<Pipeline, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Fault::new(at, "nested too deeply"));
        }
        let inner = self.pipeline()?;
        self.depth -= 1;
        match self.left.pop_front() {
            Some(Token { kind: Kind::Mark(')'), .. }) => Ok(inner),
            _ => Err(Fault::new(at, "the parenthesis is not closed")),
        }
    }
}
