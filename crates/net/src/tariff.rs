//! Tariffs of local addresses, and the accounts to which sockets are charged.

use std::{fmt, net::SocketAddr};

use anabranch_base::SocketId;
use anabranch_session::{
    Engine,
    metering::{Billing, Meter, Model, Period},
};

use crate::place::Place;

/// Usage of a place's budget, as recorded in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Billing period.
    pub period: Period,
    /// Bytes used in it.
    pub used_bytes: u64,
}

/// Cost of sending at a place.
#[derive(Clone, Debug)]
pub struct Tariff {
    /// Place to which the tariff applies.
    pub place: Place,
    /// Price list.
    pub model: Model,
    /// Start of its billing periods.
    pub billing: Billing,
    /// Currency of its prices, for display only.
    pub currency: Option<String>,
    /// Usage before the start; `None`: nothing.
    pub counted: Option<Counted>,
    /// True if nothing may be sent until [`Host::grant`](crate::Host::grant) permits it: for an owner that records usage
    /// before it happens.
    pub is_granted: bool,
}

impl Tariff {
    /// Creates a tariff with monthly periods that begin on the first, without previous usage or grants.
    pub fn new(place: Place, model: Model) -> Self {
        Self {
            place,
            model,
            billing: Billing::default(),
            currency: None,
            counted: None,
            is_granted: false,
        }
    }
}

/// State of a place's budget.
#[derive(Clone, Debug)]
pub struct BudgetReport {
    /// Place of the budget.
    pub place: Place,
    /// Currency of its prices.
    pub currency: Option<String>,
    /// Start of its billing periods.
    pub billing: Billing,
    /// Its price list, and the usage in this period.
    pub meter: Meter,
    /// True if the place must not be used any more in this period.
    pub is_spent: bool,
    /// Its local addresses so far.
    pub locals: Vec<SocketAddr>,
}

/// Event that concerns no session in particular.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostEvent {
    /// Less than a tenth of what may be sent at a place in this period is left.
    BudgetLow {
        /// The place.
        place: Place,
        /// Bytes that are left.
        left_bytes: u64,
    },
    /// The budget of a place is spent for this period: its channels are closed, and data takes other paths.
    BudgetSpent {
        /// The place.
        place: Place,
    },
    /// A place whose budget was spent is used again.
    BudgetRenewed {
        /// The place.
        place: Place,
    },
}

impl fmt::Display for HostEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetLow { place, left_bytes } => {
                write!(
                    f,
                    "less than a tenth of the budget of {place} is left: {left_bytes} bytes"
                )
            }
            Self::BudgetSpent { place } => write!(
                f,
                "the budget of {place} is spent; it is not used until its next period begins"
            ),
            Self::BudgetRenewed { place } => {
                write!(f, "a new period began for {place}; it is used again")
            }
        }
    }
}

/// Account of a tariff: its sockets and its meter.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) tariff: Tariff,
    /// Sockets charged to it; the engine keeps the meter at the first.
    pub(crate) sockets: Vec<SocketId>,
    /// Meter while there is no socket.
    pub(crate) idle: Meter,
}

impl Account {
    pub(crate) fn new(tariff: Tariff, unix_s: u64) -> Self {
        let period = tariff.billing.period(unix_s);
        let counted = tariff.counted.unwrap_or(Counted {
            period,
            used_bytes: 0,
        });
        let mut idle = Meter::new(tariff.model.clone(), counted.period, counted.used_bytes);
        idle.begin(period);
        Self {
            tariff,
            sockets: Vec::new(),
            idle,
        }
    }

    pub(crate) fn meter<'a>(&'a self, engine: &'a Engine) -> &'a Meter {
        let first = self.sockets.first();
        first
            .and_then(|&first| engine.meter(first))
            .unwrap_or(&self.idle)
    }
}
