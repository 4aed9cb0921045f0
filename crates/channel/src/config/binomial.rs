//! Parameters of the window-based controllers.

use std::fmt;

use super::ParseControllerError;

/// Additive increase by `increase` packets per round trip, multiplicative decrease by the fraction `decrease` on loss:
/// TCP's 1 and 0.5 by default.
///
/// Other pairs that share fairly with TCP have `increase` = 3 `decrease` / (2 − `decrease`)
/// [Floyd, Handley and Padhye 2000]; `aimd:0.2,0.125` is such a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aimd {
    /// a: packets per round trip, above 0, at most 1000.
    pub increase: f64,
    /// b: fraction of the window, above 0 and below 1.
    pub decrease: f64,
}

/// Parameters of binomial control: on every round trip without loss the window W, in packets, grows by α/Wᵏ; on loss it
/// shrinks by β·Wˡ [Bansal and Balakrishnan, Equation 2].
///
/// With k + l = 1 it shares fairly with TCP in the long run. AIMD is k = 0, l = 1. The smaller l, the less the rate
/// oscillates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binomial {
    /// Exponent of the increase, 0 to 2.
    pub k: f64,
    /// Exponent of the decrease, 0 to 1.
    pub l: f64,
    /// α: packets, above 0, at most 1000.
    pub increase: f64,
    /// β: packets, above 0, at most 1000; below 1 where l is 1.
    pub decrease: f64,
}

impl Default for Aimd {
    fn default() -> Self {
        Self {
            increase: 1.0,
            decrease: 0.5,
        }
    }
}

impl Aimd {
    pub(super) fn parse(text: &str) -> Result<Self, ParseControllerError> {
        const NAME: &str = "aimd";
        if text.is_empty() {
            return Ok(Self::default());
        }
        let [increase, decrease] = numbers(text).ok_or_else(|| ParseControllerError::Parameters {
            name: NAME,
            text: text.to_owned(),
            expected: "write aimd:a,b with a packets gained per round trip and the fraction b of the window lost on loss, such as aimd:1,0.5",
        })?;
        packets(NAME, "increase", increase)?;
        if !(decrease > 0.0 && decrease < 1.0) {
            return Err(range(
                NAME,
                "decrease",
                decrease,
                "a number above 0 and below 1",
            ));
        }
        Ok(Self { increase, decrease })
    }
}

impl Binomial {
    /// β that shares fairly with TCP where k + l = 1 and α = 1: with small decreases the mean window is √(α/(β p)),
    /// and TCP's is √(1.5/p), at loss rate p.
    const FRIENDLY: f64 = 2.0 / 3.0;
    /// k = l = ½: named SQRT in the paper.
    pub const SQRT: Self = Self {
        k: 0.5,
        l: 0.5,
        increase: 1.0,
        decrease: Self::FRIENDLY,
    };
    /// k = 1, l = 0: inverse increase, additive decrease.
    pub const IIAD: Self = Self {
        k: 1.0,
        l: 0.0,
        increase: 1.0,
        decrease: Self::FRIENDLY,
    };

    pub(super) fn parse(text: &str) -> Result<Self, ParseControllerError> {
        const NAME: &str = "binomial";
        match text {
            "" | "sqrt" => return Ok(Self::SQRT),
            "iiad" => return Ok(Self::IIAD),
            _ => {}
        }
        let [k, l, increase, decrease] =
            numbers(text).ok_or_else(|| ParseControllerError::Parameters {
                name: NAME,
                text: text.to_owned(),
                expected: "write binomial:sqrt, binomial:iiad, or binomial:k,l,α,β with four numbers, such as binomial:0.5,0.5,1,0.67",
            })?;
        if !(0.0..=2.0).contains(&k) {
            return Err(range(NAME, "k", k, "a number from 0 to 2"));
        }
        if !(0.0..=1.0).contains(&l) {
            return Err(range(NAME, "l", l, "a number from 0 to 1"));
        }
        if k + l < 1.0 {
            let words = "at least 1; below that, it would take more than TCP";
            return Err(range(NAME, "k + l", k + l, words));
        }
        packets(NAME, "α", increase)?;
        packets(NAME, "β", decrease)?;
        if l == 1.0 && decrease >= 1.0 {
            return Err(range(NAME, "β", decrease, "a number below 1, as l is 1"));
        }
        Ok(Self {
            k,
            l,
            increase,
            decrease,
        })
    }
}

/// Parses exactly `N` numbers, separated by commas.
fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    let mut parts = text.split(',');
    for number in &mut numbers {
        *number = parts.next()?.trim().parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn packets(
    name: &'static str,
    parameter: &'static str,
    value: f64,
) -> Result<(), ParseControllerError> {
    if value > 0.0 && value <= 1_000.0 {
        return Ok(());
    }
    Err(range(
        name,
        parameter,
        value,
        "a number above 0, at most 1000",
    ))
}

fn range(
    name: &'static str,
    parameter: &'static str,
    value: f64,
    range: &'static str,
) -> ParseControllerError {
    ParseControllerError::Range {
        name,
        parameter,
        value: value.to_string(),
        range,
    }
}

impl fmt::Display for Aimd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("aimd");
        }
        write!(f, "aimd:{},{}", self.increase, self.decrease)
    }
}

impl fmt::Display for Binomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            k,
            l,
            increase,
            decrease,
        } = self;
        match *self {
            Self::SQRT => f.write_str("binomial:sqrt"),
            Self::IIAD => f.write_str("binomial:iiad"),
            _ => write!(f, "binomial:{k},{l},{increase},{decrease}"),
        }
    }
}
