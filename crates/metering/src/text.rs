//! Price lists as people write them.
//!
//! ```text
//! list  = { step "then" } last
//! step  = size [ "at" price ]            without a price: free
//! last  = price | "stop"
//! price = "free" | number [ "J" ] "/" unit
//! size  = number unit
//! unit  = "B" | "kB" | "MB" | "GB" | "TB" | "KiB" | "MiB" | "GiB" | "TiB"
//! ```
//!
//! Such as `free`, `0.01/MB`, `2 GB then 0.01/MB`, `5 GB then stop`, `0.5 J/MB`. Numbers are decimal and
//! exact: up to six digits after the point in a price, a whole number of bytes in a size.

use std::{fmt, str::FromStr};

use anabranch_base::{
    size::{self, UNITS},
    unit,
};

use super::{Cost, Model, ModelError, Price, Step, Unit};

/// Reason why a text is not a price list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseModelError {
    /// A price is not one.
    #[error(
        "'{0}' is not a price; write \"free\", or a number with at most six decimals for an amount of data, \
         such as \"0.01/MB\" or \"0.5 J/MB\""
    )]
    Price(String),
    /// A size is not one.
    #[error(
        "'{0}' is not an amount of data; write a whole number of bytes such as \"2 GB\" or \"1.5 MiB\""
    )]
    Size(String),
    /// The words after the last `then`.
    #[error(
        "the list ends with '{0}'; it ends with a price, such as \"free\" or \"0.01/MB\", or with \"stop\""
    )]
    End(String),
    /// Money and energy in one list.
    #[error("a list has prices in money or in joules, not both")]
    Mixed,
    /// The list as a whole.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl FromStr for Model {
    type Err = ParseModelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts: Vec<&str> = text.split(" then ").map(str::trim).collect();
        let end = parts.pop().unwrap_or_default();
        let mut units = Vec::new();
        let mut steps = Vec::new();
        for part in parts {
            let (bytes, cost) = match part.split_once(" at ") {
                Some((bytes, cost)) => (bytes, price(cost.trim(), &mut units)?),
                None => (part, Price::FREE),
            };
            steps.push(Step {
                bytes: read_size(bytes)?,
                price: cost,
            });
        }
        let last = match end {
            "stop" => None,
            _ if !end.contains('/') && end != "free" => {
                return Err(ParseModelError::End(end.to_owned()));
            }
            _ => Some(price(end, &mut units)?),
        };
        let unit = units.first().copied().unwrap_or_default();
        if units.iter().any(|other| *other != unit) {
            return Err(ParseModelError::Mixed);
        }
        Ok(Self::new(unit, steps, last)?)
    }
}

/// A price; adds its unit to `units` unless it is free.
fn price(text: &str, units: &mut Vec<Unit>) -> Result<Price, ParseModelError> {
    if text == "free" {
        return Ok(Price::FREE);
    }
    let wrong = || ParseModelError::Price(text.to_owned());
    let (amount, per) = text.split_once('/').ok_or_else(wrong)?;
    let (amount, unit) = match amount.trim().strip_suffix('J') {
        Some(joules) => (joules.trim(), Unit::Energy),
        None => (amount.trim(), Unit::Money),
    };
    let millionths = scaled(amount, 1_000_000).ok_or_else(wrong)?;
    let bytes = size::bytes_of(per.trim()).ok_or_else(wrong)?;
    units.push(unit);
    Price::new(Cost::from_millionths(millionths), bytes).ok_or_else(wrong)
}

fn read_size(text: &str) -> Result<u64, ParseModelError> {
    let wrong = || ParseModelError::Size(text.to_owned());
    let (number, unit) = unit::split(text);
    let unit = size::bytes_of(unit).ok_or_else(wrong)?;
    scaled(number, unit).ok_or_else(wrong)
}

/// A decimal number times `unit`; `None` when that is not a whole number, or too large.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || number.ends_with('.') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let denominator = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(unit))?;
    if !product.is_multiple_of(denominator) {
        return None;
    }
    u64::try_from(product / denominator).ok()
}

impl fmt::Display for Model {
    /// In the form that is parsed; equal lists have the same text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write_amount(f, step.bytes)?;
            if !step.price.is_free() {
                f.write_str(" at ")?;
                self.write_price(f, step.price)?;
            }
            f.write_str(" then ")?;
        }
        match self.last {
            Some(price) => self.write_price(f, price),
            None => f.write_str("stop"),
        }
    }
}

impl Model {
    fn write_price(&self, f: &mut fmt::Formatter<'_>, price: Price) -> fmt::Result {
        if price.is_free() {
            return f.write_str("free");
        }
        let (whole, rest) = (price.millionths / 1_000_000, price.millionths % 1_000_000);
        let digits = format!("{rest:06}");
        let digits = digits.trim_end_matches('0');
        let point = if digits.is_empty() { "" } else { "." };
        let joule = match self.unit {
            Unit::Money => "",
            Unit::Energy => " J",
        };
        write!(f, "{whole}{point}{digits}{joule}/")?;
        match UNITS.iter().find(|(_, bytes)| *bytes == price.bytes) {
            Some((name, _)) => f.write_str(name),
            // A price that was not read from a text.
            None => write!(f, "({} B)", price.bytes),
        }
    }
}

/// In the largest unit of which it is a whole number.
fn write_amount(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    let (name, unit) = UNITS
        .iter()
        .find(|(_, unit)| bytes.is_multiple_of(*unit))
        .unwrap_or(&UNITS[UNITS.len() - 1]);
    write!(f, "{} {name}", bytes / unit)
}
