//! Text form of both directions of a link.

use std::{fmt, str::FromStr};

use crate::{
    describe::{DescribeError, LoadTrace, no_traces, parse, parse::apply, parse::split},
    duplex::Configs,
    preset,
};

/// Parses both directions: `forward ; backward`, or one part for both. See the [module](crate::describe) for the form.
///
/// # Errors
/// The first part that cannot be parsed, or the first value out of range.
pub fn parse_both(text: &str, load: &mut LoadTrace<'_>) -> Result<Configs, DescribeError> {
    match split(text, ';')[..] {
        [] => Ok(Configs::default()),
        [one] => parse_one(one, load),
        [forward, backward] => Ok(Configs {
            forward: parse(forward, load)?,
            backward: parse(backward, load)?,
        }),
        ref parts => Err(DescribeError::Directions { count: parts.len() }),
    }
}

/// Parses one text for both directions. A trace is loaded twice.
fn parse_one(text: &str, load: &mut LoadTrace<'_>) -> Result<Configs, DescribeError> {
    let parts = split(text, ',');
    match parts.first().and_then(|first| preset::by_name(first)) {
        Some(both) => Ok(Configs {
            forward: apply(both.forward, parts[1..].iter().copied(), load)?,
            backward: apply(both.backward, parts[1..].iter().copied(), load)?,
        }),
        None => Ok(Configs::symmetric(parse(text, load)?)),
    }
}

impl FromStr for Configs {
    type Err = DescribeError;

    /// As [`parse_both`], without traces.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_both(text, &mut no_traces)
    }
}

impl fmt::Display for Configs {
    /// In the form that [`parse_both`] reads: once if both directions are alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { forward, backward } = self;
        if forward == backward {
            write!(f, "{forward}")
        } else {
            write!(f, "{forward} ; {backward}")
        }
    }
}
