//! Explanation of a score, by objective and binding.

use serde::Serialize;

use crate::{
    evaluate::{
        ByStream, Candidates, Faults, Involving, Limits, Machine, ObjectiveId, Schedule, visit,
    },
    fact::AduFact,
    program::{Binary, Binding, Node, NodeId, Objective, Shape, StreamSelector},
    types::Type,
    vocabulary::Vocabulary,
};

/// Utility of a schedule, broken down.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// The sum over all objectives.
    pub utility: f64,
    /// In order of injection.
    pub objectives: Vec<Scored>,
    /// Gain of each ADU, in order of ADUs. One below 0 had better not be sent, or be sent elsewhere.
    pub adus: Vec<Worth>,
}

/// Contribution of one objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// Its name; its line if it has none.
    pub name: String,
    /// Line at which it begins in its text, from 1.
    pub line: u32,
    /// `streams`, `single` or `combinatorial`: the number of ADUs that it concerns at a time.
    pub shape: &'static str,
    /// Sum over its contexts.
    pub utility: f64,
    /// Number of bindings of its variables.
    pub contexts: u64,
    /// Number of contexts in which its goal is true.
    pub contexts_met: u64,
    /// Faults of its evaluation, in words.
    pub faults: Vec<&'static str>,
    /// The first contexts in full.
    pub first: Vec<Context>,
}

/// One context.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Context {
    /// Bindings of the variables.
    pub bindings: Vec<Bound>,
    /// True if the goal is met.
    pub is_met: bool,
    /// Comparisons of the goal.
    pub tests: Vec<Test>,
    /// Gains; empty if the goal is not met.
    pub gains: Vec<Gained>,
    /// Sum of the gains.
    pub utility: f64,
}

/// Binding of a variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The variable.
    pub variable: String,
    /// The stream, or that of the ADU; `None` if it is not known.
    pub stream_id: Option<u64>,
    /// The ADU's position in its stream; `None` for a stream.
    pub stream_seq: Option<u64>,
    /// The ADU's number in the schedule; `None` for a stream.
    pub adu: Option<u32>,
}

/// One comparison of a goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Test {
    /// Text of the comparison.
    pub text: String,
    /// Values of both sides; `None` for strings.
    pub values: Option<[f64; 2]>,
    /// True if the comparison holds.
    pub holds: bool,
}

/// Gain of one variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gained {
    /// The variable.
    pub variable: String,
    /// Text of the expression.
    pub text: String,
    /// Its value.
    pub value: f64,
}

/// Gain of one ADU under all objectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worth {
    /// Number of the ADU in the schedule.
    pub adu: u32,
    /// Its stream.
    pub stream_id: Option<u64>,
    /// Its position in its stream.
    pub stream_seq: Option<u64>,
    /// True if it is sent.
    pub is_sent: bool,
    /// The sum of its gains.
    pub utility: f64,
}

impl Explanation {
    pub(crate) fn new<S: Schedule + ?Sized>(schedule: &S) -> Self {
        let adus = (0..schedule.adus()).map(|adu| Worth {
            adu,
            stream_id: whole(schedule.adu(adu, AduFact::StreamId)),
            stream_seq: whole(schedule.adu(adu, AduFact::StreamSeq)),
            is_sent: schedule.is_sent(adu),
            utility: 0.0,
        });
        Self {
            adus: adus.collect(),
            ..Self::default()
        }
    }

    pub(crate) fn add<S: Schedule + ?Sized>(
        &mut self,
        id: ObjectiveId,
        objective: &Objective,
        vocabulary: &Vocabulary,
        limits: Limits,
        contexts_max: usize,
        schedule: &S,
    ) {
        let mut candidates = Candidates::default();
        let found = candidates.find(objective, schedule, &ByStream::of(schedule));
        let mut scored = Scored::new(id, objective);
        let mut machine = Machine::new(objective, schedule);
        let adus = &mut self.adus;
        let mut at = |machine: &mut Machine<'_, S>| {
            let context = context(objective, vocabulary, machine);
            for (gain, &(variable, _)) in context.gains.iter().zip(&objective.gains) {
                let bound = context.bindings[usize::from(variable)].adu;
                if let Some(worth) = bound.and_then(|adu| adus.get_mut(adu as usize)) {
                    worth.utility += gain.value;
                }
            }
            scored.contexts += 1;
            scored.contexts_met += u64::from(context.is_met);
            scored.utility += context.utility;
            if scored.first.len() < contexts_max {
                scored.first.push(context);
            }
        };
        visit(
            objective,
            &candidates,
            &mut machine,
            Involving::Any,
            limits.tries,
            &mut at,
        );
        scored.faults = machine.faults.union(found).words().collect();
        self.utility += scored.utility;
        self.objectives.push(scored);
    }
}

impl Scored {
    fn new(id: ObjectiveId, objective: &Objective) -> Self {
        let line = objective.span().position(objective.text()).line;
        let name = objective.name().map(str::to_owned);
        Self {
            name: name.unwrap_or_else(|| format!("objective {} (line {line})", id.0 + 1)),
            line,
            shape: match objective.shape() {
                Shape::Streams => "streams",
                Shape::Single => "single",
                Shape::Combinatorial => "combinatorial",
            },
            utility: 0.0,
            contexts: 0,
            contexts_met: 0,
            faults: Vec::new(),
            first: Vec::new(),
        }
    }
}

/// Explains one context, whose variables are bound.
fn context<S: Schedule + ?Sized>(
    objective: &Objective,
    vocabulary: &Vocabulary,
    machine: &mut Machine<'_, S>,
) -> Context {
    let utility = machine.gain(objective);
    let before = std::mem::replace(&mut machine.faults, Faults::NONE);
    let goal = machine.value(objective.goal) != 0.0;
    let mut gains = Vec::new();
    if goal {
        for &(variable, node) in &objective.gains {
            gains.push(Gained {
                variable: objective.variables[usize::from(variable)].name.clone(),
                text: text(objective, node),
                value: machine.value(node),
            });
        }
    }
    let is_met = goal && machine.is_sound();
    if !is_met {
        gains.clear();
    }
    let mut comparisons = Vec::new();
    collect(objective, objective.goal, &mut comparisons);
    let tests = comparisons
        .into_iter()
        .map(|(node, sides)| Test {
            text: text(objective, node),
            holds: machine.value(node) != 0.0,
            values: (!sides
                .iter()
                .any(|&side| is_string(objective, vocabulary, side)))
            .then(|| sides.map(|side| machine.value(side))),
        })
        .collect();
    machine.faults = before;
    Context {
        bindings: bindings(objective, machine),
        is_met,
        tests,
        gains,
        utility,
    }
}

fn bindings<S: Schedule + ?Sized>(objective: &Objective, machine: &Machine<'_, S>) -> Vec<Bound> {
    let mut adus = machine.bound.iter();
    let mut labelled = machine.streams.iter();
    let bind = |variable: &crate::Variable| {
        let name = variable.name.clone();
        match &variable.binding {
            Binding::Stream(selector) => Bound {
                variable: name,
                stream_id: match selector {
                    StreamSelector::Id(id) => Some(id.0),
                    StreamSelector::Label(_) => labelled.next().map(|id| id.0),
                },
                stream_seq: None,
                adu: None,
            },
            Binding::Adu { .. } => {
                let adu = adus.next().copied().unwrap_or_default();
                Bound {
                    variable: name,
                    stream_id: whole(machine.schedule.adu(adu, AduFact::StreamId)),
                    stream_seq: whole(machine.schedule.adu(adu, AduFact::StreamSeq)),
                    adu: Some(adu),
                }
            }
        }
    };
    objective.variables.iter().map(bind).collect()
}

fn text(objective: &Objective, node: NodeId) -> String {
    let span = objective.spans[node.0 as usize];
    // On one line, whatever the layout of the text.
    let words: Vec<&str> = span.of(objective.text()).split_whitespace().collect();
    words.join(" ")
}

/// Collects the outermost comparisons of a tree, in order of place.
fn collect(objective: &Objective, root: NodeId, into: &mut Vec<(NodeId, [NodeId; 2])>) {
    match objective.nodes[root.0 as usize] {
        Node::Binary(Binary::And | Binary::Or, left, right) => {
            collect(objective, left, into);
            collect(objective, right, into);
        }
        Node::Binary(_, left, right) => into.push((root, [left, right])),
        Node::Unary(_, operand) => collect(objective, operand, into),
        _ => {}
    }
}

fn is_string(objective: &Objective, vocabulary: &Vocabulary, node: NodeId) -> bool {
    match objective.nodes[node.0 as usize] {
        Node::Adu { fact, .. } => match fact {
            AduFact::Label | AduFact::ChannelName | AduFact::ChannelTechnology => true,
            AduFact::Field(id) | AduFact::ChannelField(id) => vocabulary
                .fields()
                .get(usize::from(id.0))
                .is_some_and(|field| field.value == Type::String),
            _ => false,
        },
        Node::Constant(_) => text(objective, node).contains('"'),
        _ => false,
    }
}

fn whole(value: f64) -> Option<u64> {
    (0.0..=crate::NUMBER_MAX)
        .contains(&value)
        .then_some(value as u64)
}
