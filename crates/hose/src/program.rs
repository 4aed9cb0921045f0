//! Compiled objectives: flat arrays of nodes without names, ready to be evaluated.

use std::{fmt, sync::Arc, time::Duration};

use anabranch_base::{Rate, StreamId};

use crate::{
    fact::{AduFact, StreamFact},
    span::Span,
    syntax::ast::{Level, VariableKind},
};

/// Largest number of variables of one objective that stand for ADUs.
pub const ADU_VARIABLES_MAX: usize = 8;

/// Largest number of variables of one objective that are bound to streams by label.
pub const LABELLED_MAX: usize = 4;

/// Index of a node in its objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

/// One step of an evaluation. Operands precede the node that uses them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    /// A number, 0 or 1 for a boolean, a symbol for a string.
    Constant(f64),
    /// A fact about the ADU that is bound to a variable.
    Adu {
        variable: u8,
        fact: AduFact,
    },
    /// A fact about a stream.
    Stream {
        stream: StreamRef,
        fact: StreamFact,
    },
    /// Correlated loss of two variables' ADUs, in percent.
    Correlated(u8, u8),
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
}

/// The stream that a node is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StreamRef {
    /// That of a variable bound by id.
    Known(StreamId),
    /// That of the variable bound by label with this number: an index into `Objective::labelled`.
    Labelled(u8),
}

/// Selection of the streams to which a stream variable, or a rate, applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamSelector {
    /// The stream with this id.
    Id(StreamId),
    /// Each stream with this label (extension).
    Label(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Not,
    Abs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
    Equal,
    NotEqual,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    And,
    Or,
}

/// A compiled text.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The source text.
    pub text: Arc<str>,
    /// The language level of the text.
    pub level: Level,
    /// In order of place.
    pub objectives: Vec<Objective>,
    /// In order of place.
    pub rates: Vec<RateObjective>,
}

/// A compiled objective. Self-contained: it does not refer to its program.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    pub(crate) text: Arc<str>,
    pub(crate) name: Option<String>,
    pub(crate) span: Span,
    pub(crate) level: Level,
    pub(crate) nodes: Box<[Node]>,
    /// Place of each node in the text.
    pub(crate) spans: Box<[Span]>,
    /// Variables, as declared.
    pub(crate) variables: Vec<Variable>,
    /// Variables that stand for ADUs, in order of declaration: indices into `variables`.
    pub(crate) adus: Vec<u8>,
    /// Labels of the variables that are bound by label, in order of declaration; at most [`LABELLED_MAX`].
    pub(crate) labelled: Vec<Labelled>,
    pub(crate) goal: NodeId,
    /// Gain of each variable (an index into `variables`).
    pub(crate) gains: Vec<(u8, NodeId)>,
    pub(crate) reads: Vec<AduFact>,
}

/// Label by which a variable is bound to streams.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Labelled {
    pub(crate) label: Arc<str>,
    /// Symbol of the label.
    pub(crate) symbol: f64,
    /// Place of the label in the text.
    pub(crate) span: Span,
}

/// A variable of an objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    pub(crate) binding: Binding,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Binding {
    Stream(StreamSelector),
    Adu {
        /// Streams whose ADUs may pass; all if `None`. Sorted.
        streams: Option<Vec<StreamId>>,
        /// Conditions on the ADU alone: each must be true.
        own: Vec<NodeId>,
        /// Conditions that depend on variables bound before: each must be true.
        joined: Vec<NodeId>,
        /// Required value of `stream_seq`, computed from variables bound before; also part of `joined`.
        sequence: Option<NodeId>,
    },
}

/// Number of ADUs that an objective concerns at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// None: only streams, so that no schedule changes its value within a cycle.
    Streams,
    /// One: its contribution to a schedule is a sum over ADUs, each alone in its slot (separable).
    Single,
    /// Several at a time.
    Combinatorial,
}

/// A `rate` item: the demand of a stream, to be promised or refused (extension). Checked; units as stated.
#[derive(Clone, Debug, PartialEq)]
pub struct RateObjective {
    /// Its name.
    pub name: Option<String>,
    /// Its stream, or the label of each of its streams.
    pub stream: StreamSelector,
    /// Place of the id or the label in the text.
    pub stream_span: Span,
    /// Rate needed in each window; above 0.
    pub rate: Rate,
    /// Required certainty.
    pub demand: RateDemand,
    /// Scheduling window; 0.1 s to 10 s.
    pub window: Duration,
    /// Place in the text.
    pub span: Span,
}

/// Certainty with which a stream needs its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateDemand {
    /// Rate reached in this share of all windows; above 0 and below 1.
    Probability(f64),
    /// Mean number of late packets per window, out of those that make up the rate.
    Late {
        /// Number of packets; above 0.
        packets: f64,
        /// Size of a packet in bytes; above 0.
        packet_bytes: u32,
    },
}

impl Objective {
    /// Its name, in the extended language.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The objective as a text of its own, of the same language level. Declarations of fields are not in it.
    pub fn alone(&self) -> String {
        let own = self.span.of(&self.text);
        match self.level {
            Level::Published => own.to_owned(),
            level => format!("hose {}\n{own}", level.number()),
        }
    }

    /// Place in the source text.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Its variables, as declared.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Number of ADUs that it concerns at a time.
    pub fn shape(&self) -> Shape {
        match self.adus.len() {
            0 => Shape::Streams,
            1 => Shape::Single,
            _ => Shape::Combinatorial,
        }
    }

    /// Facts about ADUs that its goal and utility use, sorted. If none of them [depends on the
    /// slot](AduFact::is_of_slot), the objective's contribution is the same wherever an ADU is sent; slots with equal
    /// answers to all of them are equal for the objective.
    pub fn reads(&self) -> &[AduFact] {
        &self.reads
    }

    /// True if its goal or utility uses the correlated loss of two ADUs.
    pub fn reads_correlation(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| matches!(node, Node::Correlated(..)))
    }

    /// True if it uses measurements of a stream, or the set of streams with a label.
    pub fn reads_streams(&self) -> bool {
        let is_of_stream = |node: &Node| matches!(node, Node::Stream { fact, .. } if *fact != StreamFact::StreamId);
        !self.labelled.is_empty() || self.nodes.iter().any(is_of_stream)
    }

    /// Labels of the streams to which variables are bound by label.
    pub fn stream_labels(&self) -> impl Iterator<Item = &str> {
        self.labelled.iter().map(|labelled| &*labelled.label)
    }

    /// True if both are the same objective of one text, compiled once. O(1).
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) && self.span == other.span
    }

    /// True if the numbers that it uses are rounded to whole ones: the published language.
    pub(crate) fn is_whole(&self) -> bool {
        self.level == Level::Published
    }
}

impl StreamSelector {
    /// True for a stream with this id and label.
    pub fn selects(&self, id: StreamId, label: &str) -> bool {
        match self {
            Self::Id(wanted) => *wanted == id,
            Self::Label(wanted) => **wanted == *label,
        }
    }
}

impl fmt::Display for StreamSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Label(label) => write!(f, "streams labelled \"{label}\""),
        }
    }
}

impl Variable {
    /// Kind of the variable: ADU or stream.
    pub fn kind(&self) -> VariableKind {
        match self.binding {
            Binding::Stream(_) => VariableKind::Stream,
            Binding::Adu { .. } => VariableKind::Adu,
        }
    }

    /// Streams to which a bound ADU or stream may belong, sorted; `None` if that does not depend on ids.
    pub fn streams(&self) -> Option<&[StreamId]> {
        match &self.binding {
            Binding::Stream(StreamSelector::Id(id)) => Some(std::slice::from_ref(id)),
            Binding::Stream(StreamSelector::Label(_)) => None,
            Binding::Adu { streams, .. } => streams.as_deref(),
        }
    }

    /// Label of the streams to which it is bound, if it is bound by label.
    pub fn label(&self) -> Option<&str> {
        match &self.binding {
            Binding::Stream(StreamSelector::Label(label)) => Some(label),
            _ => None,
        }
    }
}
