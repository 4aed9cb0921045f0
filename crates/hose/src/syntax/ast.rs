//! The tree of a text. Names are slices of it, and every part knows its place.

use crate::span::Span;

/// A name as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The name.
    pub text: &'a str,
    /// Place.
    pub span: Span,
}

/// Which language a text is written in (`spec/hose.md`).
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
    /// In order of place.
    pub items: Vec<Item<'a>>,
    /// `// …`, in order of place.
    pub comments: Vec<Span>,
}

/// What stands at the top level.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
    /// A rule of utility.
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
    /// Which ADUs and streams it is about.
    pub context: Section<Vec<Binding<'a>>>,
    /// What must hold.
    pub goal: Section<Expr<'a>>,
    /// What it is worth then.
    pub utility: Section<Vec<Gain<'a>>>,
    /// From `objective` to `}`.
    pub span: Span,
}

/// What stands between a section's braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Section<T> {
    /// Its content.
    pub body: T,
    /// From its word to `}`.
    pub span: Span,
}

/// `adu:NAME { FILTER }` or `stream:NAME { FILTER }` [Horde §B.2.2].
#[derive(Clone, Debug, PartialEq)]
pub struct Binding<'a> {
    /// What the variable stands for.
    pub kind: VariableKind,
    /// The variable.
    pub name: Name<'a>,
    /// What may be bound.
    pub filter: Expr<'a>,
    /// From `adu` or `stream` to `}`.
    pub span: Span,
}

/// What a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariableKind {
    /// An ADU.
    Adu,
    /// A stream.
    Stream,
}

/// `NAME { EXPRESSION }`: what a variable gains [Horde §B.2.4].
#[derive(Clone, Debug, PartialEq)]
pub struct Gain<'a> {
    /// The variable.
    pub name: Name<'a>,
    /// How much.
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
    /// `at_least`, `probability`, `late`, `packet`, `window`, as they stand.
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
    /// All of it.
    pub span: Span,
}

/// An expression. At most [`DEPTH_MAX`](super::DEPTH_MAX) deep.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr<'a> {
    /// The kind.
    pub kind: ExprKind<'a>,
    /// Where, parentheses around it excluded.
    pub span: Span,
    /// 1 for a leaf, else 1 more than its deepest part.
    pub(crate) depth: u16,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind<'a> {
    /// `true` or `false`.
    Boolean(bool),
    /// A number without sign.
    Number(f64),
    /// What stands between the quotation marks.
    Text(&'a str),
    /// A field of the ADU that a filter looks at, or a variable as an argument.
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
        /// In order.
        arguments: Vec<Expr<'a>>,
    },
    /// `-x` or `!x`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it applies to.
        operand: Box<Expr<'a>>,
    },
    /// `x op y`.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Place where it stands.
        op_span: Span,
        /// Its left side.
        left: Box<Expr<'a>>,
        /// Its right side.
        right: Box<Expr<'a>>,
    },
    /// Something that was reported already.
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
    /// The language it is written in.
    pub fn level(&self) -> Level {
        self.version.map_or(Level::Published, |(level, _)| level)
    }
}

impl Level {
    /// As the version line says it.
    pub fn number(self) -> u8 {
        match self {
            Self::Published => 1,
            Self::Extended => 2,
        }
    }
}

impl Item<'_> {
    /// Place where it stands.
    pub fn span(&self) -> Span {
        match self {
            Self::Objective(objective) => objective.span,
            Self::Rate(rate) => rate.span,
            Self::Field(field) => field.span,
        }
    }
}

impl VariableKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Adu => "adu",
            Self::Stream => "stream",
        }
    }
}

impl UnaryOp {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Negate => "-",
            Self::Not => "!",
        }
    }
}

impl BinaryOp {
    /// As it is written.
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
