//! Syntax tree of a text. Names are slices of the text, and every part has its span.

use crate::span::Span;

/// A name in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The name.
    pub text: &'a str,
    /// Place in the text.
    pub span: Span,
}

/// Language level of a text (`spec/hose.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// As published [Horde, Appendix B].
    #[default]
    Published,
    /// With our extensions: the text begins with `hose 2`.
    Extended,
}

/// A whole text.
#[derive(Clone, Debug, PartialEq)]
pub struct File<'a> {
    /// The version line, if there is one.
    pub version: Option<(Level, Span)>,
    /// Items, in order of place.
    pub items: Vec<Item<'a>>,
    /// `// …`, in order of place.
    pub comments: Vec<Span>,
}

/// Item at the top level.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// An objective.
    Objective(Objective<'a>),
    /// A rate that a stream needs (extension).
    Rate(Rate<'a>),
    /// The type of an application's field (extension).
    Field(Field<'a>),
}

/// `objective { context { … } goal { … } utility { … } }` [Horde §B.2.1].
#[derive(Clone, Debug, PartialEq)]
pub struct Objective<'a> {
    /// Its name (extension).
    pub name: Option<Name<'a>>,
    /// ADUs and streams to which it applies.
    pub context: Section<Vec<Binding<'a>>>,
    /// Condition to be met.
    pub goal: Section<Expr<'a>>,
    /// Gains if the goal is met.
    pub utility: Section<Vec<Gain<'a>>>,
    /// From `objective` to `}`.
    pub span: Span,
}

/// A section: a keyword and the content of its braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Section<T> {
    /// Its content.
    pub body: T,
    /// From its keyword to `}`.
    pub span: Span,
}

/// `adu:NAME { FILTER }` or `stream:NAME { FILTER }` [Horde §B.2.2].
#[derive(Clone, Debug, PartialEq)]
pub struct Binding<'a> {
    /// Kind of the variable.
    pub kind: VariableKind,
    /// The variable.
    pub name: Name<'a>,
    /// Condition on what may be bound.
    pub filter: Expr<'a>,
    /// From `adu` or `stream` to `}`.
    pub span: Span,
}

/// Kind of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariableKind {
    /// An ADU.
    Adu,
    /// A stream.
    Stream,
}

/// `NAME { EXPRESSION }`: the gain of a variable [Horde §B.2.4].
#[derive(Clone, Debug, PartialEq)]
pub struct Gain<'a> {
    /// The variable.
    pub name: Name<'a>,
    /// Amount of the gain.
    pub value: Expr<'a>,
    /// From the name to `}`.
    pub span: Span,
}

/// `rate { context { … } at_least { … } … }` (extension).
#[derive(Clone, Debug, PartialEq)]
pub struct Rate<'a> {
    /// Its name.
    pub name: Option<Name<'a>>,
    /// The stream.
    pub context: Section<Vec<Binding<'a>>>,
    /// Clauses `at_least`, `probability`, `late`, `packet`, `window`, in order of place.
    pub clauses: Vec<Gain<'a>>,
    /// From `rate` to `}`.
    pub span: Span,
}

/// `field NAME: TYPE` (extension).
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// True if it is a channel's attribute: `channel::NAME`.
    pub of_channel: bool,
    /// The field.
    pub name: Name<'a>,
    /// Its type's name.
    pub type_name: Name<'a>,
    /// The whole item.
    pub span: Span,
}

/// An expression. At most [`DEPTH_MAX`](super::DEPTH_MAX) deep.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr<'a> {
    /// The kind.
    pub kind: ExprKind<'a>,
    /// Place in the text, without parentheses around it.
    pub span: Span,
    /// 1 for a leaf, else 1 more than its deepest part.
    pub(crate) depth: u16,
}

/// Kind of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind<'a> {
    /// `true` or `false`.
    Boolean(bool),
    /// A number without sign.
    Number(f64),
    /// Text between the quotation marks.
    Text(&'a str),
    /// A field of the ADU to which a filter applies, or a variable as an argument.
    Name(Name<'a>),
    /// `variable::field`.
    Field {
        /// The variable.
        variable: Name<'a>,
        /// The field.
        field: Name<'a>,
    },
    /// `variable::channel::attribute` (extension).
    Attribute {
        /// The variable.
        variable: Name<'a>,
        /// The attribute.
        attribute: Name<'a>,
    },
    /// `function(arguments)`.
    Call {
        /// The function.
        function: Name<'a>,
        /// Arguments, in order.
        arguments: Vec<Expr<'a>>,
    },
    /// `-x` or `!x`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// The operand.
        operand: Box<Expr<'a>>,
    },
    /// `x op y`.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Place of the operator.
        op_span: Span,
        /// Its left side.
        left: Box<Expr<'a>>,
        /// Its right side.
        right: Box<Expr<'a>>,
    },
    /// Part with an error that has been reported.
    Invalid,
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`
    Not,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl File<'_> {
    /// Language level of the text.
    pub fn level(&self) -> Level {
        self.version.map_or(Level::Published, |(level, _)| level)
    }
}

impl Level {
    /// Number in the version line.
    pub fn number(self) -> u8 {
        match self {
            Self::Published => 1,
            Self::Extended => 2,
        }
    }
}

impl Item<'_> {
    /// Place in the text.
    pub fn span(&self) -> Span {
        match self {
            Self::Objective(objective) => objective.span,
            Self::Rate(rate) => rate.span,
            Self::Field(field) => field.span,
        }
    }
}

impl VariableKind {
    /// Keyword.
    pub fn word(self) -> &'static str {
        match self {
            Self::Adu => "adu",
            Self::Stream => "stream",
        }
    }
}

impl UnaryOp {
    /// Sign in the text.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Negate => "-",
            Self::Not => "!",
        }
    }
}

impl BinaryOp {
    /// Sign in the text.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::LessEqual => "<=",
            Self::GreaterEqual => ">=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}
