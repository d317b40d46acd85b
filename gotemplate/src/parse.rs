//! The parser, which builds nodes from text and actions.

use std::collections::VecDeque;

use serde_json::Value;

use crate::ast::{PathRoot, Pipeline, SyntaxNode, Term};
use crate::error::PositionedError;
use crate::lex::{Piece, Token, TokenKind};

/// The maximum nesting depth.
const DEEPEST: usize = 64;
const UNSUPPORTED: &str = "define, template, block, break and continue are not supported";
const UNCLOSED: &str = "if, range or with has no end";

/// Builds the syntax tree from a template's text and action pieces. Fails if an action is invalid or unsupported, or if `else` or
/// `end` doesn't match an `if`, `range` or `with`.
pub(super) fn parse(pieces: Vec<Piece>) -> Result<Vec<SyntaxNode>, PositionedError> {
    let mut parser = Parser { pieces: pieces.into(), depth: 0 };
    let (nodes, end) = parser.list()?;
    match end {
        End::Text => Ok(nodes),
        End::Close(at) => Err(PositionedError::new(at, "end without if, range or with")),
        End::Else(at, _) => Err(PositionedError::new(at, "else without if, range or with")),
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
    fn list(&mut self) -> Result<(Vec<SyntaxNode>, End), PositionedError> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.pop_front() {
            let (at, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(SyntaxNode::Text(text));
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
                Some(_) => return Err(PositionedError::new(at, UNSUPPORTED)),
                None => nodes.push(tokens.statement()?),
            }
        }
        Ok((nodes, End::Text))
    }

    fn nested(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<SyntaxNode, PositionedError>,
    ) -> Result<SyntaxNode, PositionedError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(PositionedError::new(at, "nested too deeply"));
        }
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn branches(&mut self, at: usize, mut tokens: Tokens) -> Result<SyntaxNode, PositionedError> {
        let mut branches = Vec::new();
        loop {
            let condition = tokens.whole()?;
            let (body, end) = self.list()?;
            branches.push((condition, body));
            let otherwise = match end {
                End::Text => return Err(PositionedError::new(at, UNCLOSED)),
                End::Close(_) => Vec::new(),
                End::Else(_, mut more) => match more.keyword().as_deref() {
                    Some("if") => {
                        tokens = more;
                        continue;
                    }
                    _ => self.last(at, &more)?,
                },
            };
            return Ok(SyntaxNode::If { branches, otherwise });
        }
    }

    fn range(&mut self, at: usize, mut tokens: Tokens) -> Result<SyntaxNode, PositionedError> {
        let names = tokens.declared()?;
        let over = tokens.whole()?;
        let (body, otherwise) = self.body(at)?;
        Ok(SyntaxNode::Range { names, over, body, otherwise })
    }

    fn with(&mut self, at: usize, mut tokens: Tokens) -> Result<SyntaxNode, PositionedError> {
        let name = tokens.declared()?.pop();
        let of = tokens.whole()?;
        let (body, otherwise) = self.body(at)?;
        Ok(SyntaxNode::With { name, of, body, otherwise })
    }

    fn body(&mut self, at: usize) -> Result<(Vec<SyntaxNode>, Vec<SyntaxNode>), PositionedError> {
        match self.list()? {
            (_, End::Text) => Err(PositionedError::new(at, UNCLOSED)),
            (body, End::Close(_)) => Ok((body, Vec::new())),
            (body, End::Else(_, more)) => Ok((body, self.last(at, &more)?)),
        }
    }

    /// Parses the nodes between a plain `else` and its `end`.
    fn last(&mut self, at: usize, rest: &Tokens) -> Result<Vec<SyntaxNode>, PositionedError> {
        rest.done()?;
        match self.list()? {
            (nodes, End::Close(_)) => Ok(nodes),
            (_, End::Else(at, _)) => Err(PositionedError::new(at, "a second else")),
            (_, End::Text) => Err(PositionedError::new(at, UNCLOSED)),
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
        let TokenKind::Word(word) = &self.left.front()?.kind else { return None };
        let word = word.clone();
        KEYWORDS.contains(&word.as_str()).then(|| self.left.pop_front())?;
        Some(word)
    }

    fn done(&self) -> Result<(), PositionedError> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(PositionedError::new(self.at(), "nothing can follow here"))
        }
    }

    fn statement(&mut self) -> Result<SyntaxNode, PositionedError> {
        let name = match (self.left.front(), self.left.get(1)) {
            (Some(Token { kind: TokenKind::Variable(name), .. }), Some(Token { kind, .. })) => match kind {
                TokenKind::Declare => Some((true, name.clone())),
                TokenKind::Assign => Some((false, name.clone())),
                _ => None,
            },
            _ => None,
        };
        let Some((declares, name)) = name else { return self.whole().map(SyntaxNode::Emit) };
        self.left.drain(..2);
        Ok(SyntaxNode::Set { declares, name, value: self.whole()? })
    }

    /// Parses the variables before `:=` in `range` and `with`. Returns an empty list if there is no `:=`.
    fn declared(&mut self) -> Result<Vec<String>, PositionedError> {
        let Some(end) = self.left.iter().position(|token| token.kind == TokenKind::Declare) else {
            return Ok(Vec::new());
        };
        let names: Vec<_> = self.left.drain(..=end).collect();
        let mut declared = Vec::new();
        for token in names {
            match token.kind {
                TokenKind::Variable(name) if declared.len() < 2 => declared.push(name),
                TokenKind::Mark(',') | TokenKind::Declare => {}
                _ => return Err(PositionedError::new(token.at, "only variables can precede :=")),
            }
        }
        Ok(declared)
    }

    /// Parses a pipeline that extends to the action's end.
    fn whole(&mut self) -> Result<Pipeline, PositionedError> {
        let pipeline = self.pipeline()?;
        self.done()?;
        Ok(pipeline)
    }

    fn pipeline(&mut self) -> Result<Pipeline, PositionedError> {
        let at = self.at();
        let mut commands = vec![Vec::new()];
        while let Some(token) = self.left.front() {
            match token.kind {
                TokenKind::Mark(')') => break,
                TokenKind::Mark('|') => {
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
            return Err(PositionedError::new(at, "a value is missing"));
        }
        Ok(Pipeline { at, commands })
    }

    fn term(&mut self) -> Result<Term, PositionedError> {
        let Some(Token { at, kind, .. }) = self.left.pop_front() else {
            return Err(PositionedError::new(self.open, "a value is missing"));
        };
        let mut fields = Vec::new();
        let root = match kind {
            TokenKind::Dot => PathRoot::Dot,
            TokenKind::Field(name) => {
                fields.push(name);
                PathRoot::Dot
            }
            TokenKind::Variable(name) => PathRoot::Variable(name),
            TokenKind::Literal(value) => PathRoot::Literal(value),
            TokenKind::Word(word) => match word.as_str() {
                "true" => PathRoot::Literal(Value::Bool(true)),
                "false" => PathRoot::Literal(Value::Bool(false)),
                "nil" => PathRoot::Literal(Value::Null),
                _ => PathRoot::Function(word),
            },
            TokenKind::Mark('(') => PathRoot::Nested(self.parenthesised(at)?),
            TokenKind::Mark(_) | TokenKind::Declare | TokenKind::Assign => {
                return Err(PositionedError::new(at, "a value is expected here"));
            }
        };
        while let Some(Token { spaced: false, kind: TokenKind::Field(name), .. }) = self.left.front() {
            fields.push(name.clone());
            self.left.pop_front();
        }
        Ok(Term { at, root, fields })
    }

    fn parenthesised(&mut self, at: usize) -> Result<Pipeline, PositionedError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(PositionedError::new(at, "nested too deeply"));
        }
        let inner = self.pipeline()?;
        self.depth -= 1;
        match self.left.pop_front() {
            Some(Token { kind: TokenKind::Mark(')'), .. }) => Ok(inner),
            _ => Err(PositionedError::new(at, "the parenthesis is not closed")),
        }
    }
}
