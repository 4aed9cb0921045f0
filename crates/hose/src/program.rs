//! Compiled objectives: flat arrays of nodes without names, ready to be evaluated.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Rate, StreamId};

use crate::{
    fact::{AduFact, StreamFact},
    span::Span,
    syntax::ast::{Level, VariableKind},
};

/// Most variables of one objective that stand for ADUs.
pub const ADU_VARIABLES_MAX: usize = 8;

/// Place of a node in its objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

/// One step of an evaluation. Operands stand before the node that uses them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node {
    /// A number, 0 or 1 for a boolean, a symbol for a string.
    Constant(f64),
    /// Of the ADU that is bound to a variable.
    Adu {
        variable: u8,
        fact: AduFact,
    },
    /// Of a stream.
    Stream {
        stream: StreamId,
        fact: StreamFact,
    },
    /// Correlated loss of two variables' ADUs, in percent.
    Correlated(u8, u8),
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
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
    /// The text it was made from.
    pub text: Arc<str>,
    /// The language it is written in.
    pub level: Level,
    /// In order of place.
    pub objectives: Vec<Objective>,
    /// In order of place.
    pub rates: Vec<RateObjective>,
}

/// A compiled objective. It stands for itself: it needs no program.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    pub(crate) text: Arc<str>,
    pub(crate) name: Option<String>,
    pub(crate) span: Span,
    pub(crate) level: Level,
    pub(crate) nodes: Box<[Node]>,
    /// Place where each node stands in the text.
    pub(crate) spans: Box<[Span]>,
    /// As declared.
    pub(crate) variables: Vec<Variable>,
    /// Those that stand for ADUs, in order of declaration: indices into `variables`.
    pub(crate) adus: Vec<u8>,
    pub(crate) goal: NodeId,
    /// What each variable (an index into `variables`) gains.
    pub(crate) gains: Vec<(u8, NodeId)>,
    pub(crate) reads: Vec<AduFact>,
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
    Stream(StreamId),
    Adu {
        /// Streams whose ADUs may pass; all if `None`. Sorted.
        streams: Option<Vec<StreamId>>,
        /// What the ADU itself decides: each must be true.
        own: Vec<NodeId>,
        /// What depends on variables bound before: each must be true.
        joined: Vec<NodeId>,
        /// What `stream_seq` must equal, computed from variables bound before; part of `joined`, too.
        sequence: Option<NodeId>,
    },
}

/// Number of ADUs that an objective is about at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// None: only streams, so that no schedule changes it within a cycle.
    Streams,
    /// One: what it adds to a schedule is a sum over ADUs, each alone in its slot (separable).
    Single,
    /// Several at a time.
    Combinatorial,
}

/// A `rate` item: what a stream needs, to be promised or refused (extension). Checked; units as stated.
#[derive(Clone, Debug, PartialEq)]
pub struct RateObjective {
    /// Its name.
    pub name: Option<String>,
    /// The stream.
    pub stream: StreamId,
    /// What each window needs; above 0.
    pub rate: Rate,
    /// How surely.
    pub demand: RateDemand,
    /// The window over which it is stated; 0.1 s to 10 s.
    pub window: Duration,
    /// Place where it stands in the text.
    pub span: Span,
}

/// How surely a stream needs its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateDemand {
    /// In this share of all windows; above 0 and below 1.
    Probability(f64),
    /// Of the packets that the rate makes in a window, this many are late on average.
    Late {
        /// Above 0.
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

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Place where it stands in its text.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Its variables, as declared.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Number of ADUs that it is about at a time.
    pub fn shape(&self) -> Shape {
        match self.adus.len() {
            0 => Shape::Streams,
            1 => Shape::Single,
            _ => Shape::Combinatorial,
        }
    }

    /// What its goal and utility ask about ADUs, sorted. If nothing of it [is of the
    /// slot](AduFact::is_of_slot), the objective adds the same wherever an ADU is sent; slots that answer
    /// alike to all of it are alike to the objective.
    pub fn reads(&self) -> &[AduFact] {
        &self.reads
    }

    /// True if its goal or utility asks how losses of two ADUs correlate.
    pub fn reads_correlation(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| matches!(node, Node::Correlated(..)))
    }

    /// True if it asks what is measured of a stream.
    pub fn reads_streams(&self) -> bool {
        let is_of_stream = |node: &Node| matches!(node, Node::Stream { fact, .. } if *fact != StreamFact::StreamId);
        self.nodes.iter().any(is_of_stream)
    }

    /// True if both are one objective of one text, compiled once. O(1).
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) && self.span == other.span
    }

    /// True if what it asks of numbers is rounded to whole ones: the published language.
    pub(crate) fn is_whole(&self) -> bool {
        self.level == Level::Published
    }
}

impl Variable {
    /// Whether it stands for an ADU or a stream.
    pub fn kind(&self) -> VariableKind {
        match self.binding {
            Binding::Stream(_) => VariableKind::Stream,
            Binding::Adu { .. } => VariableKind::Adu,
        }
    }

    /// The streams to which what it is bound to may belong, sorted; `None` if any may.
    pub fn streams(&self) -> Option<&[StreamId]> {
        match &self.binding {
            Binding::Stream(id) => Some(std::slice::from_ref(id)),
            Binding::Adu { streams, .. } => streams.as_deref(),
        }
    }
}
