//! Other tariffs and another ledger for a host that runs. What was used stays counted, and not a byte is sent that is in no ledger:
//! what the previous ledger permitted is void when the next one takes over.

use anabranch_net::{Counted, Host, Place, Tariff};

use super::{File, Ledger, LedgerError, lock};

/// Tariffs whose usage begins with that in a file. A place that is charged already goes on with its own.
fn counted(file: &File, tariffs: Vec<Tariff>, is_charged: impl Fn(&Place) -> bool) -> Vec<Tariff> {
    let tariffs = tariffs.into_iter().map(|tariff| {
        let counted = file.counted(&tariff.place);
        Tariff {
            counted: counted.filter(|_| !is_charged(&tariff.place)),
            is_granted: true,
            ..tariff
        }
    });
    tariffs.collect()
}

impl Ledger {
    /// Gives the host other tariffs, whose usage this ledger keeps, too.
    ///
    /// # Errors
    /// The usage of places without a tariff cannot be written; the file then holds a little more than was used there.
    pub(crate) fn set_tariffs(&self, host: &Host, tariffs: Vec<Tariff>) -> Result<(), LedgerError> {
        let mut file = lock(&self.file);
        let before = host.budgets();
        let tariffs = counted(&file, tariffs, |place| {
            before.iter().any(|budget| budget.place == *place)
        });
        let places: Vec<Place> = tariffs.iter().map(|tariff| tariff.place.clone()).collect();
        let used = host.set_tariffs(tariffs);
        let (stay, end): (Vec<_>, Vec<_>) = used
            .into_iter()
            .partition(|(place, _)| places.contains(place));
        for (place, _) in stay {
            // It is written already.
            if let Some(Counted { period, used_bytes }) = file.counted(&place) {
                host.grant(&place, period, used_bytes);
            }
        }
        match end.is_empty() {
            true => Ok(()),
            false => file.write(end),
        }
    }

    /// Takes the place of another ledger, if there is one, which gets the exact usage and is closed; the tariffs are charged to this
    /// one. A place goes on with the larger usage: its own, or that in this ledger for the same period.
    ///
    /// # Errors
    /// The previous one cannot be written; it then holds a little more than was used.
    pub(crate) fn take_over(
        &self,
        before: Option<&Self>,
        host: &Host,
        tariffs: Vec<Tariff>,
    ) -> Result<(), LedgerError> {
        let tariffs = counted(&lock(&self.file), tariffs, |_| false);
        match before {
            Some(before) => before.end(host, tariffs),
            None => {
                host.set_tariffs(tariffs);
                Ok(())
            }
        }
    }

    /// Gives the host tariffs that this ledger does not keep; closes it with the exact usage until now.
    ///
    /// # Errors
    /// It cannot be written; it then holds a little more than was used.
    pub(crate) fn end(&self, host: &Host, tariffs: Vec<Tariff>) -> Result<(), LedgerError> {
        // What it permits while it is locked is nothing.
        let mut file = lock(&self.file);
        let used = host.set_tariffs(tariffs);
        file.write_last(used)
    }
}
