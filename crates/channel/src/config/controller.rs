//! Congestion controllers by name, with their parameters.

use std::{fmt, str::FromStr};

use anabranch_base::{Rate, rate::ParseRateError};

use super::{Aimd, Binomial, Ctcp, Verb};

/// A congestion controller, by name.
///
/// As text: the name, followed by a colon and the parameters if it has any, as in `aimd:1,0.5`, `binomial:sqrt`,
/// `verb:lte`, `ctcp:1.5 Mbit/s`, `fixed:10 Mbit/s` (or `fixed 10 Mbit/s`). The printed form can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Controller {
    /// Anabranch's own: keeps the bottleneck's queue short and tolerates random loss; yields to flows that fill the
    /// queue. See `docs/congestion.md`.
    #[default]
    Auto,
    /// CUBIC (RFC 9438), as in most of the Internet.
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
    /// BBR version 3 (draft-ietf-ccwg-bbr), own implementation; its differences from the draft are listed in
    /// `spec/deviations.toml`.
    Bbr3,
    /// Additive increase, multiplicative decrease.
    Aimd(Aimd),
    /// Increase and decrease by powers of the window [Bansal and Balakrishnan, INFOCOM 2001].
    Binomial(Binomial),
    /// A rate on plateaus, backing off when round trips grow [Horde §7.4.1].
    Verb(Verb),
    /// A window with a ceiling that follows from a target rate [Two-flow §4.1].
    Ctcp(Ctcp),
    /// A constant rate without any response to congestion; only for a path that is provisioned for it [Two-flow §4.2].
    Fixed(Rate),
}

/// Error: the text names no controller, or its parameters are invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseControllerError {
    /// Unknown name.
    #[error(
        "'{0}' is not a congestion controller; choose auto, cubic, newreno, bbr3, aimd (such as aimd:1,0.5), binomial (binomial:sqrt, binomial:iiad, or binomial:k,l,α,β), verb (verb:cdma2000, verb:lte, verb:5g, verb:satellite), ctcp with a target rate such as ctcp:1.5 Mbit/s, or fixed with a rate such as \"fixed 10 Mbit/s\""
    )]
    Unknown(String),
    /// A controller without parameters was given some.
    #[error(
        "controller '{name}' takes no parameters, but was given '{text}'; write '{name}' alone"
    )]
    NoParameters {
        /// The controller.
        name: &'static str,
        /// Text that was given.
        text: String,
    },
    /// Parameters of the wrong number or kind.
    #[error("controller '{name}' cannot use '{text}'; {expected}")]
    Parameters {
        /// The controller.
        name: &'static str,
        /// Text that was given.
        text: String,
        /// Description of valid parameters.
        expected: &'static str,
    },
    /// A parameter outside its range.
    #[error("controller '{name}': {parameter} is {value}; give {range}")]
    Range {
        /// The controller.
        name: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// Value that was given.
        value: String,
        /// Range of valid values.
        range: &'static str,
    },
    /// `fixed` with a rate that cannot be read.
    #[error("controller 'fixed' needs a rate: {0}")]
    Rate(#[from] ParseRateError),
    /// `fixed` at rate zero would never send.
    #[error("controller 'fixed' needs a rate above zero")]
    ZeroRate,
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cubic => f.write_str("cubic"),
            Self::NewReno => f.write_str("newreno"),
            Self::Bbr3 => f.write_str("bbr3"),
            Self::Aimd(aimd) => aimd.fmt(f),
            Self::Binomial(binomial) => binomial.fmt(f),
            Self::Verb(verb) => verb.fmt(f),
            Self::Ctcp(ctcp) => ctcp.fmt(f),
            Self::Fixed(rate) => write!(f, "fixed {} bit/s", rate.as_bps()),
        }
    }
}

impl FromStr for Controller {
    type Err = ParseControllerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let end = text.find([' ', ':', '=']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let parameters = rest.trim_start_matches([' ', ':', '=']).trim_end();
        let plain = |controller, name| {
            if parameters.is_empty() {
                Ok(controller)
            } else {
                Err(ParseControllerError::NoParameters {
                    name,
                    text: parameters.to_owned(),
                })
            }
        };
        match name {
            "auto" => plain(Self::Auto, "auto"),
            "cubic" => plain(Self::Cubic, "cubic"),
            "newreno" => plain(Self::NewReno, "newreno"),
            "bbr3" => plain(Self::Bbr3, "bbr3"),
            "aimd" => Aimd::parse(parameters).map(Self::Aimd),
            "binomial" => Binomial::parse(parameters).map(Self::Binomial),
            "verb" => Verb::parse(parameters).map(Self::Verb),
            "ctcp" => Ctcp::parse(parameters).map(Self::Ctcp),
            "fixed" => match parameters.parse::<Rate>()? {
                Rate::ZERO => Err(ParseControllerError::ZeroRate),
                rate => Ok(Self::Fixed(rate)),
            },
            _ => Err(ParseControllerError::Unknown(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_round_trip_as_text() {
        for text in [
            "auto",
            "cubic",
            "newreno",
            "bbr3",
            "fixed 1000000 bit/s",
            "aimd",
            "aimd:0.31,0.125",
            "binomial:sqrt",
            "binomial:iiad",
            "binomial:0.25,0.75,1,0.5",
            "verb:cdma2000",
            "verb:lte",
            "verb:5g",
            "verb:satellite",
            "verb:lte,last=40000000 bit/s,rise=80 ms",
            "verb:cdma2000,step=x1.5,period=3000 ms",
            "ctcp:1500000 bit/s",
            "ctcp:1500000 bit/s,newreno",
            "ctcp:64000 bit/s,newreno,500 ms",
        ] {
            let controller: Controller = text.parse().expect(text);
            assert_eq!(controller.to_string(), text);
        }
    }

    #[test]
    fn several_spellings_mean_the_same() {
        for (text, same) in [
            ("fixed 8 Mbit/s", "fixed:8Mbit/s"),
            ("aimd", "aimd:1,0.5"),
            ("binomial", "binomial:sqrt"),
            ("binomial", "binomial 0.5, 0.5, 1, 0.6666666666666666"),
            ("verb", "verb:cdma2000"),
            ("verb:lte", " verb lte "),
            ("ctcp:1.5 Mbit/s", "ctcp 1500 kbit/s, auto, 8 s"),
            ("ctcp:1 Mbit/s,newreno,2 s", "ctcp:1 Mbit/s,2 s,newreno"),
        ] {
            assert_eq!(text.parse::<Controller>(), same.parse(), "{text}");
        }
    }

    #[test]
    fn a_refusal_states_valid_values() {
        for (text, words) in [
            ("vegas", ["vegas", "binomial:sqrt"]),
            ("auto:3", ["auto", "'3'"]),
            ("fixed", ["fixed", "rate"]),
            ("fixed 0 bit/s", ["fixed", "above zero"]),
            ("ctcp", ["''", "ctcp:1.5 Mbit/s"]),
            ("ctcp:0 bit/s", ["target is 0", "above zero"]),
            ("ctcp:1 Mbit/s,vegas", ["'vegas'", "newreno"]),
            (
                "ctcp:1 Mbit/s,1 ms",
                ["interval is 1.00 ms", "100 ms to 10 min"],
            ),
            ("aimd:1", ["'1'", "aimd:1,0.5"]),
            ("aimd:1,x", ["'1,x'", "aimd:1,0.5"]),
            ("aimd:1,1", ["decrease is 1", "below 1"]),
            ("aimd:NaN,0.5", ["increase is NaN", "above 0"]),
            ("binomial:cubic", ["'cubic'", "sqrt"]),
            ("binomial:0,1.5,1,0.5", ["l is 1.5", "0 to 1"]),
            ("binomial:-1,0,1,0.5", ["k is -1", "0 to 2"]),
            ("binomial:0,0,1,0.5", ["k + l is 0", "at least 1"]),
            ("verb:wimax", ["'wimax'", "cdma2000"]),
            ("verb:lte,top=3", ["'top=3'", "first, last"]),
            ("verb:lte,last=1 bit/s", ["last", "first"]),
            ("verb:lte,step=x1", ["step", "at least 1.01"]),
            ("verb:lte,period=1 ms", ["period", "50 ms"]),
            ("verb:lte,rise=soon", ["'rise=soon'", "150 ms"]),
        ] {
            let error = text.parse::<Controller>().expect_err(text).to_string();
            for word in words {
                assert!(error.contains(word), "{text}: {error}");
            }
        }
    }
}
