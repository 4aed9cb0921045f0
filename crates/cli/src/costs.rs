//! Flags for the costs of sending.

use std::path::PathBuf;

use anabranch::config::{ConfigError, CostLayer, Costs, Layer};

use crate::exit::Failure;

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Costing {
    /// Tariff of an interface or a local address, such as 'wwan0=5 GB then stop from day 15'; may be repeated. A cap
    /// is never exceeded, not even by a byte.
    #[arg(long, value_name = "PLACE=PRICES")]
    cost: Vec<String>,
    /// Currency of these prices, for display only.
    #[arg(long)]
    currency: Option<String>,
    /// Usage ledger: the file that keeps the amounts used over restarts [default: ~/.local/state/anabranch/ledger].
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

impl Costing {
    /// True if a flag was given.
    pub(crate) fn is_given(&self) -> bool {
        !self.cost.is_empty() || self.currency.is_some() || self.ledger.is_some()
    }

    pub(crate) fn layer(self) -> Result<Layer, ConfigError> {
        let cost = self.cost.iter().map(|text| CostLayer::from_text(text));
        let cost = cost.collect::<Result<Vec<_>, _>>()?;
        Ok(Layer {
            cost: (!cost.is_empty()).then_some(cost),
            currency: self.currency,
            ledger: self.ledger,
            ..Layer::default()
        })
    }

    /// The costs from flags and environment variables, for commands without a configuration file.
    pub(crate) fn resolve(self) -> Result<Costs, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        let environment = Layer::from_environment(variable).map_err(Failure::usage)?;
        let layer = self.layer().map_err(Failure::usage)?.over(environment);
        layer.costs(variable).map_err(Failure::usage)
    }
}
