//! Syntax: parsing of a text to a tree, and formatting. Independent of the meaning of names and types.

pub mod ast;
pub(crate) mod expression;
mod format;
mod lexer;
mod parser;
mod precedence;
mod token;

pub use format::format;
pub(crate) use parser::parse;

/// Longest text that is accepted, in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of an expression: operators, calls and parentheses. It bounds every recursion over a tree.
pub const DEPTH_MAX: u16 = 200;
/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
