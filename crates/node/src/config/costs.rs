//! Costs of sending, in the text form of the configuration.

use std::path::PathBuf;

use anabranch_net::{HostConfig, Place, Tariff};
use anabranch_session::metering::{Billing, Model, Zone};
use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, missing, refused};
use crate::ledger::{Ledger, LedgerError};

/// Cost of sending at one place, as texts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CostLayer {
    /// The interface, or the local address.
    pub on: String,
    /// The price list.
    pub price: String,
    /// Day of the month on which a billing period begins.
    pub day: Option<u8>,
    /// Time zone in which the billing period begins at midnight.
    pub zone: Option<String>,
}

/// Costs of sending, and the location of the ledger; checked.
#[derive(Clone, Debug)]
pub struct Costs {
    /// One for each place.
    pub tariffs: Vec<Tariff>,
    /// Ledger file, which keeps usage over restarts.
    pub ledger: PathBuf,
}

impl Costs {
    /// Gives a host that is about to start these tariffs, and the usage so far; `None` if nothing costs anything, so that
    /// nothing has to be kept.
    ///
    /// # Errors
    /// The ledger cannot be used.
    pub fn apply(self, host: &mut HostConfig) -> Result<Option<Ledger>, LedgerError> {
        if self.tariffs.is_empty() {
            return Ok(None);
        }
        let ledger = Ledger::open(&self.ledger)?;
        host.tariffs = self.tariffs;
        ledger.load(host);
        Ok(Some(ledger))
    }
}

impl CostLayer {
    /// Parses the short form: `wwan0=5 GB then stop`, `wwan0=5 GB then stop from day 15`.
    ///
    /// # Errors
    /// It has no `=`, or the day is not a number.
    pub fn from_text(text: &str) -> Result<Self, ConfigError> {
        let wrong = || {
            refused(
                "cost",
                text,
                "give a place and its price list, such as \"wwan0=5 GB then stop\" or \"192.0.2.1=2 GB then 0.01/MB from day 15\"",
            )
        };
        let (on, price) = text.split_once('=').ok_or_else(wrong)?;
        let (price, day) = match price.rsplit_once(" from day ") {
            Some((price, day)) => (price, Some(day.trim().parse().map_err(|_| wrong())?)),
            None => (price, None),
        };
        Ok(Self {
            on: on.trim().to_owned(),
            price: price.trim().to_owned(),
            day,
            zone: None,
        })
    }

    fn tariff(&self, currency: Option<&String>) -> Result<Tariff, ConfigError> {
        let place: Place = self
            .on
            .parse()
            .map_err(|error| refused("cost.on", &self.on, format!("{error}")))?;
        let model: Model = self
            .price
            .parse()
            .map_err(|error| refused("cost.price", &self.price, format!("{error}")))?;
        let mut zone = Zone::default();
        if let Some(text) = &self.zone {
            zone = text
                .parse()
                .map_err(|error| refused("cost.zone", text, format!("{error}")))?;
        }
        let day = self.day.unwrap_or(Billing::default().day());
        let billing = Billing::monthly(day, zone).ok_or_else(|| {
            let reason =
                "give a day of the month from 1 to 31; shorter months begin on their last day";
            refused("cost.day", &day.to_string(), reason)
        })?;
        Ok(Tariff {
            billing,
            currency: currency.cloned(),
            ..Tariff::new(place, model)
        })
    }
}

impl Layer {
    /// Checks only the keys about costs.
    ///
    /// # Errors
    /// The first value that is refused, or two prices for one place.
    pub fn costs(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Costs, ConfigError> {
        let mut tariffs: Vec<Tariff> = Vec::new();
        for layer in self.cost.iter().flatten() {
            let tariff = layer.tariff(self.currency.as_ref())?;
            if tariffs.iter().any(|other| other.place == tariff.place) {
                let reason = format!("{} has two; write one price list with \"then\"", layer.on);
                return Err(missing("cost", reason));
            }
            tariffs.push(tariff);
        }
        let ledger = self.ledger.clone();
        let ledger = ledger.unwrap_or_else(|| default_ledger(&variable));
        Ok(Costs { tariffs, ledger })
    }
}

/// Default location of the ledger: in `$ANABRANCH_HOME`, or else `$XDG_STATE_HOME/anabranch/ledger`, or `~/.local/state/anabranch/ledger`. `variable` looks
/// up an environment variable.
pub fn default_ledger(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    if let Some(home) = super::home(&variable) {
        return home.join("ledger");
    }
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    let state = get("XDG_STATE_HOME").map(PathBuf::from);
    let home = || crate::keys::home(get).map(|home| PathBuf::from(home).join(".local/state"));
    let state = state.or_else(home);
    state.unwrap_or_default().join("anabranch/ledger")
}

#[cfg(test)]
mod tests {
    use anabranch_session::metering::Unit;

    use super::*;

    fn costs(text: &str) -> Result<Costs, ConfigError> {
        let home = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        Layer::from_toml(text)?.costs(home)
    }

    #[test]
    fn places_have_prices() {
        let all = costs(
            "currency = \"EUR\"\n[[cost]]\non = \"wwan0\"\nprice = \"5 GB then stop\"\nday = 31\nzone = \"+01:00\"\n\
             [[cost]]\non = \"192.0.2.1\"\nprice = \"0.5 J/MB\"\n",
        );
        let all = all.unwrap();
        assert_eq!(
            all.ledger.to_str(),
            Some("/home/ada/.local/state/anabranch/ledger")
        );
        let [first, second] = &all.tariffs[..] else {
            panic!("two were given");
        };
        assert_eq!(first.place, Place::Interface("wwan0".to_owned()));
        assert_eq!(first.model.cap_bytes(), Some(5_000_000_000));
        assert_eq!(
            first.billing,
            Billing::monthly(31, "+01:00".parse().unwrap()).unwrap()
        );
        assert_eq!(first.currency.as_deref(), Some("EUR"));
        assert_eq!(second.model.unit(), Unit::Energy);
        assert_eq!(second.billing, Billing::default());
        assert!(costs("").unwrap().tariffs.is_empty());
    }

    #[test]
    fn the_short_form_is_equivalent() {
        let short = CostLayer::from_text("wwan0 = 2 GB then 0.01/MB from day 15").unwrap();
        let long = "[[cost]]\non = \"wwan0\"\nprice = \"2 GB then 0.01/MB\"\nday = 15\n";
        let long = Layer::from_toml(long).unwrap().cost;
        assert_eq!(Some(vec![short]), long);
        for text in ["wwan0", "wwan0=free from day x"] {
            let error = CostLayer::from_text(text).unwrap_err().to_string();
            assert!(
                error.contains(text) && error.contains("from day 15"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_refusal_states_the_accepted_form() {
        for (lines, parts) in [
            (
                "on = \"192.0.2.1:7\"\nprice = \"free\"",
                ["cost.on", "192.0.2.1:7", "without a port"],
            ),
            (
                "on = \"a\"\nprice = \"2 GB\"",
                ["cost.price", "2 GB", "it ends with"],
            ),
            (
                "on = \"a\"\nprice = \"0.01\"",
                ["cost.price", "0.01", "0.01/MB"],
            ),
            (
                "on = \"a\"\nprice = \"free\"\nday = 32",
                ["cost.day", "32", "from 1 to 31"],
            ),
            (
                "on = \"a\"\nprice = \"free\"\nday = 0",
                ["cost.day", "0", "from 1 to 31"],
            ),
            (
                "on = \"a\"\nprice = \"free\"\nzone = \"CET\"",
                ["cost.zone", "CET", "+01:00"],
            ),
            (
                "on = \"a\"\nprices = \"free\"",
                ["prices", "price", "line 3"],
            ),
            (
                "on = \"a\"\nprice = \"free\"\n[[cost]]\non = \"a\"\nprice = \"free\"",
                ["cost", "two", "then"],
            ),
        ] {
            let error = costs(&format!("[[cost]]\n{lines}\n"))
                .unwrap_err()
                .to_string();
            for part in parts {
                assert!(error.contains(part), "'{part}' is missing in {error}");
            }
        }
    }
}
