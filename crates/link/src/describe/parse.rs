//! Parser of the text form of a config.

use std::time::Duration;

use crate::{
    Config, Jitter, Loss, Outage, Queue, RateSource,
    describe::{DescribeError, LoadTrace, value},
    jitter,
    loss::{Doubling, GilbertElliott},
    preset,
    queue::Limit,
    source::{Playback, Walk},
};

/// The keys of a description.
pub const KEYS: [&str; 8] = [
    "rate", "delay", "jitter", "loss", "queue", "ecn", "mtu", "outage",
];

/// Parses one direction of a link; see the [module](crate::describe) for the form. A preset named without `-up` is its
/// downlink.
///
/// # Errors
/// The first part that cannot be parsed, or the first value out of range.
pub fn parse(text: &str, load: &mut LoadTrace<'_>) -> Result<Config, DescribeError> {
    let mut parts = split(text, ',').into_iter().peekable();
    let preset = parts.peek().and_then(|first| preset_direction(first));
    let config = match preset {
        Some(config) => {
            parts.next();
            config
        }
        None => Config::default(),
    };
    apply(config, parts, load)
}

/// One direction of a preset by its name, with or without `-up`.
fn preset_direction(name: &str) -> Option<Config> {
    match name.strip_suffix("-up") {
        Some(name) => preset::by_name(name).map(|both| both.forward),
        None => preset::by_name(name).map(|both| both.backward),
    }
}

/// Changes a config by `key=value` parts and checks the result.
pub(super) fn apply<'a>(
    mut config: Config,
    parts: impl Iterator<Item = &'a str>,
    load: &mut LoadTrace<'_>,
) -> Result<Config, DescribeError> {
    let mut seen: Vec<&'static str> = Vec::new();
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            return Err(DescribeError::NotASetting {
                part: part.to_owned(),
            });
        };
        let (key, value) = (key.trim(), value.trim());
        let Some(&key) = KEYS.iter().find(|&&known| known == key) else {
            return Err(DescribeError::UnknownKey {
                key: key.to_owned(),
            });
        };
        if seen.contains(&key) && key != "outage" {
            return Err(DescribeError::Twice { key });
        }
        set(&mut config, key, value, load)?;
        seen.push(key);
    }
    config.validate()?;
    Ok(config)
}

/// Sets one key.
fn set(
    config: &mut Config,
    key: &'static str,
    value: &str,
    load: &mut LoadTrace<'_>,
) -> Result<(), DescribeError> {
    let wrong = |expected| DescribeError::Value {
        key,
        value: value.to_owned(),
        expected,
    };
    match key {
        "rate" => {
            const FORM: &str = "'unlimited', a rate such as '50 Mbit/s', a walk such as '20 Mbit/s +- 50 % every 500 ms', or a trace such as 'trace NAME x0.5 from 10 s'";
            config.rate = match trace(value) {
                Some(playing) => playing.ok_or_else(|| wrong(FORM))?.load(load)?,
                None => rate(value).ok_or_else(|| wrong(FORM))?,
            };
        }
        "delay" => {
            config.delay = value::time(value).ok_or_else(|| wrong("a time such as '30 ms'"))?;
        }
        "jitter" => {
            config.jitter = jitter(value).ok_or_else(|| {
                wrong("'none', or a time such as '2 ms', optionally with 'normal' or 'gaussian' before it and 'reordering' after it")
            })?;
        }
        "loss" => {
            const FORM: &str = "'none', '1 %', '1 % in bursts of 4', '20 % in bursts up to 16', 'doubling 17 %/20 %/16' (start, decay, longest), or 'gilbert 0.1 %/25 %/0 %/100 %' (good to bad, bad to good, loss in good, loss in bad)";
            config.loss = loss(value).ok_or_else(|| wrong(FORM))??;
        }
        "queue" => {
            const FORM: &str = "a size such as '250 kB' or a time such as '100 ms'";
            let bytes = value::bytes(value).map(Limit::Bytes);
            let limit = bytes.or_else(|| value::time(value).map(Limit::Time));
            config.queue = Queue {
                limit: limit.ok_or_else(|| wrong(FORM))?,
                ..config.queue
            };
        }
        "ecn" => {
            config.queue.mark_above_bytes = match value {
                "none" => None,
                _ => {
                    const FORM: &str = "'none' or a size such as '60 kB'";
                    Some(value::bytes(value).ok_or_else(|| wrong(FORM))?)
                }
            };
        }
        "mtu" => {
            let bytes = value::bytes(value).and_then(|bytes| usize::try_from(bytes).ok());
            config.mtu_bytes = bytes.ok_or_else(|| wrong("a size such as '1400 B'"))?;
        }
        _ => {
            let outage = outage(value).ok_or_else(|| wrong("two times such as '5 s to 7 s'"))?;
            config.outages.push(outage);
        }
    }
    Ok(())
}

/// Every form of rate except a trace.
fn rate(text: &str) -> Option<RateSource> {
    if text == "unlimited" {
        return Some(RateSource::Unlimited);
    }
    let Some((base, change)) = text.split_once("+-").or_else(|| text.split_once('±')) else {
        return value::rate(text).map(RateSource::Constant);
    };
    let (spread, every) = change.split_once("every")?;
    Some(RateSource::Walk(Walk {
        base: value::rate(base)?,
        spread: value::probability(spread)?,
        every: value::time(every)?,
    }))
}

/// `trace NAME [x0.5] [from 10 s]`, before the trace is loaded.
struct Playing<'a> {
    name: &'a str,
    scale: f64,
    start: Duration,
}

/// `None` if the text is not about a trace, `Some(None)` if it is but in a wrong form.
fn trace(text: &str) -> Option<Option<Playing<'_>>> {
    let rest = text.strip_prefix("trace")?;
    let is_word = rest.is_empty() || rest.starts_with(char::is_whitespace);
    is_word.then(|| playing(rest.trim()))
}

fn playing(text: &str) -> Option<Playing<'_>> {
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    let (factor, start) = match rest.split_once("from") {
        Some((factor, start)) => (factor.trim(), value::time(start)?),
        None => (rest.trim(), Duration::ZERO),
    };
    let scale = match factor {
        "" => 1.0,
        _ => value::plain(factor.strip_prefix('x')?)?,
    };
    (!name.is_empty()).then_some(Playing { name, scale, start })
}

impl Playing<'_> {
    fn load(self, load: &mut LoadTrace<'_>) -> Result<RateSource, DescribeError> {
        let trace = load(self.name).map_err(|cause| DescribeError::Trace {
            name: self.name.to_owned(),
            cause,
        })?;
        Ok(RateSource::Trace(Playback {
            trace,
            scale: self.scale,
            start: self.start,
        }))
    }
}

fn jitter(text: &str) -> Option<Jitter> {
    if text == "none" {
        return Some(Jitter::None);
    }
    let (text, reorders) = match text.strip_suffix("reordering") {
        Some(text) => (text.trim_end(), true),
        None => (text, false),
    };
    let shape = if let Some(deviation) = text.strip_prefix("normal") {
        jitter::Shape::Normal(value::time(deviation)?)
    } else if let Some(deviation) = text.strip_prefix("gaussian") {
        jitter::Shape::Gaussian(value::time(deviation)?)
    } else {
        let most = text.strip_prefix("uniform").unwrap_or(text);
        jitter::Shape::Uniform(value::time(most)?)
    };
    Some(Jitter::Some { shape, reorders })
}

/// `None` if the form is wrong, an inner error if a number is out of range.
fn loss(text: &str) -> Option<Result<Loss, DescribeError>> {
    if text == "none" {
        return Some(Ok(Loss::None));
    }
    if let Some(model) = text.strip_prefix("gilbert") {
        let numbers: Option<Vec<f64>> = model.split('/').map(value::probability).collect();
        let [good_to_bad, bad_to_good, loss_good, loss_bad] = numbers?.try_into().ok()?;
        return Some(Ok(Loss::GilbertElliott(GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good,
            loss_bad,
        })));
    }
    if let Some(model) = text.strip_prefix("doubling") {
        let parts: Vec<&str> = model.split('/').collect();
        let [start, decay, burst_max] = parts.try_into().ok()?;
        return Some(Ok(Loss::Doubling(Doubling {
            start: value::probability(start)?,
            decay: value::probability(decay)?,
            burst_max: burst_max.trim().parse().ok()?,
        })));
    }
    if let Some((rate, burst_max)) = text.split_once("in bursts up to") {
        let burst_max = burst_max.trim().parse().ok()?;
        let model = Doubling::horde(value::probability(rate)?, burst_max);
        return Some(model.map(Loss::Doubling).map_err(DescribeError::from));
    }
    match text.split_once("in bursts of") {
        Some((rate, burst)) => {
            let loss = Loss::bursts(value::probability(rate)?, value::plain(burst)?);
            Some(loss.map_err(DescribeError::from))
        }
        None => value::probability(text).map(|probability| Ok(Loss::Random { probability })),
    }
}

fn outage(text: &str) -> Option<Outage> {
    let (from, to) = text.split_once("to")?;
    Some(Outage {
        from: value::time(from)?,
        to: value::time(to)?,
    })
}

/// Splits at a separator outside quotation marks; drops empty parts, trims the others.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    text.split(move |c: char| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}
