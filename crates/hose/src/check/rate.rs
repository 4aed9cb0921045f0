//! Checks of `rate` items: constants with units and ranges.

use std::time::Duration;

use anabranch_base::Rate;

use super::lower::Lowering;
use crate::{
    diagnostic::Diagnostic,
    evaluate,
    program::{RateDemand, RateObjective, StreamSelector},
    span::Span,
    syntax::ast,
    types::Type,
};

/// A permitted clause, with its range and unit.
struct Clause {
    name: &'static str,
    min: f64,
    max: f64,
    unit: &'static str,
}

const fn clause(name: &'static str, min: f64, max: f64, unit: &'static str) -> Clause {
    Clause {
        name,
        min,
        max,
        unit,
    }
}

const CLAUSES: [Clause; 5] = [
    clause("at_least", 1.0, 1e12, "bits per second"),
    clause("probability", 0.001, 99.999, "percent of windows"),
    clause("late", 0.001, 1e6, "packets per window"),
    clause("packet", 1.0, 65_535.0, "bytes"),
    clause("window", 100.0, 10_000.0, "milliseconds"),
];
const WINDOW_DEFAULT_MS: f64 = 1000.0;

/// Checks an item; `None` if errors were reported.
pub(super) fn rate<'a>(
    lowering: &mut Lowering<'_, 'a>,
    item: &ast::Rate<'a>,
    (stream, stream_span): (StreamSelector, Span),
) -> Option<RateObjective> {
    let mut values: [Option<(f64, Span)>; CLAUSES.len()] = [None; CLAUSES.len()];
    let mut is_sound = true;
    for found in &item.clauses {
        let value = constant(lowering, found, &values);
        is_sound &= value.is_some();
        if let Some((at, value)) = value {
            values[at] = Some((value, found.name.span));
        }
    }
    if !is_sound {
        return None;
    }
    let [at_least, probability, late, packet, window] = values;
    let demand = match (probability, late, packet) {
        (Some((percent, _)), None, None) => Ok(RateDemand::Probability(percent / 100.0)),
        (None, Some((packets, _)), Some((bytes, _))) => Ok(RateDemand::Late {
            packets,
            packet_bytes: bytes as u32,
        }),
        (_, Some((_, at)), _) | (_, _, Some((_, at))) => Err(at),
        (None, None, None) => Err(item.span),
    };
    let Some((bps, _)) = at_least else {
        lowering.error(|| {
            Diagnostic::error(item.span, "this rate has no 'at_least'")
                .help("add 'at_least { 2500000 }', in bits per second")
        });
        return None;
    };
    match demand {
        Ok(demand) => Some(RateObjective {
            name: item.name.map(|name| name.text.to_owned()),
            stream,
            stream_span,
            rate: Rate::from_bps(bps as u64),
            demand,
            window: Duration::from_secs_f64(window.map_or(WINDOW_DEFAULT_MS, |(ms, _)| ms) / 1e3),
            span: item.span,
        }),
        Err(at) => {
            lowering.error(|| {
                Diagnostic::error(at, "a rate needs either a probability or a limit on late packets").help(
                    "write 'probability { 95 }' (percent of windows), or 'late { 2 } packet { 1200 }' (late packets per window, bytes)",
                )
            });
            None
        }
    }
}

/// Index of the clause, and its value within its range.
fn constant<'a>(
    lowering: &mut Lowering<'_, 'a>,
    found: &ast::Gain<'a>,
    before: &[Option<(f64, Span)>],
) -> Option<(usize, f64)> {
    let name = found.name.text;
    let Some(at) = CLAUSES.iter().position(|clause| clause.name == name) else {
        lowering.error(|| {
            let names = CLAUSES.map(|clause| clause.name);
            let help = match crate::diagnostic::nearest(name, names) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("the clauses of a rate are: {}", names.join(", ")),
            };
            Diagnostic::error(found.name.span, format!("a rate has no '{name}'")).help(help)
        });
        return None;
    };
    if before[at].is_some() {
        lowering.error(|| Diagnostic::error(found.name.span, format!("'{name}' appears twice")));
        return None;
    }
    let start = lowering.nodes.len();
    let node = lowering.want(&found.value, Type::Numeric)?;
    let value = evaluate::constant(&lowering.nodes, node);
    lowering.nodes.truncate(start);
    lowering.spans.truncate(start);
    let clause = &CLAUSES[at];
    match value {
        Some(value) if (clause.min..=clause.max).contains(&value) => Some((at, value)),
        _ => {
            lowering.error(|| {
                Diagnostic::error(
                    found.value.span,
                    format!(
                        "'{name}' must be a constant from {} to {} {}",
                        clause.min, clause.max, clause.unit
                    ),
                )
            });
            None
        }
    }
}
