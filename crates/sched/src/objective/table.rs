//! Utility table: each ADU in each slot by itself, and the best assignment by that; kept from cycle to cycle.

use std::cell::RefCell;

use anabranch_base::StreamId;
use anabranch_hose::{Faults, ObjectiveId, Objectives};

use super::{
    Cycle, EVALUATIONS_MAX,
    classes::{Classes, STEPS},
    concerns::Concerns,
    cycle::{Adu, Spots},
    keyed::{Keyed, Step},
    lifetime::{self, Arrivals},
    reading::{Looks, Reading},
    worths::{Worths, sum_of},
};
use crate::assign::{Matching, UTILITY_MAX, Utility, utility};
use anabranch_spec::{ChannelMask, Slot};

/// Amounts that break ties, in millionths; all of it is less than a thousandth of a unit.
///
/// An ADU nobody has an objective for is sent, and rather in a slot that exists than in one that is expected.
const SENT: Utility = 400;
const SENT_LATER: Utility = 200;
/// Penalty of the last turn for being sent now.
const TURN_MAX: Utility = 150;
/// Of so many slots, one that changed is looked at alone; if more changed, all ADUs are looked at anew.
const SLOTS_EACH: usize = 4;

/// An ADU as it was when it was last looked at. Its node is a row of the matching.
#[derive(Debug)]
struct Row {
    adu: Adu,
    /// Its index in the cycle before; `None`: it has come since.
    before: Option<u32>,
    bias: Bias,
    /// It is in time in some slots and not in others: how much of its lifetime is left.
    left_ms: Option<f64>,
}

/// Amount added to an ADU's worth to break ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bias {
    /// In slots that exist.
    sent: Utility,
    /// For each step of quickness; 0: no objective is about its latency.
    hurry: Utility,
}

/// A slot as it was when it was last looked at. Its node is a column of the matching.
#[derive(Clone, Copy, Debug)]
struct Column {
    slot: Slot,
    place: Place,
    before: Place,
    change: Change,
}

/// Amounts that break ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    is_phantom: bool,
    /// Speed, of [`STEPS`] steps.
    quickness: Utility,
}

/// Outcome of a slot since the cycle before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Only how ties are broken.
    Place,
    All,
}

impl Bias {
    fn tie(self, place: Place) -> Utility {
        let sent = if place.is_phantom {
            SENT_LATER
        } else {
            self.sent
        };
        sent + self.hurry * place.quickness
    }
}

/// Worth of each ADU in each slot, objectives over one ADU alone, and the assignment that is worth most.
///
/// Only what changed since the cycle before is evaluated again: a slot if it or anything that objectives ask of its
/// channel changed, an ADU if something of it changed at which an objective about it looks. Time that passes changes all
/// ADUs that have an objective about their latency.
#[derive(Debug, Default)]
pub(super) struct Table {
    reading: Reading,
    matching: Matching,
    rows: Vec<Row>,
    row_of: Keyed<(StreamId, u64)>,
    columns: Vec<Column>,
    column_of: Keyed<(u32, u64)>,
    classes: Classes,
    concerns: Concerns,
    concerns_before: Concerns,
    /// The class that each column has in this cycle, by node; and how each class breaks ties.
    class_of: Vec<u32>,
    places: Vec<Place>,
    /// Columns that changed, by node.
    changed: Vec<u32>,
    worths: Worths,
    /// Memory of [`Spots`].
    late: RefCell<Vec<f64>>,
    /// Evaluations that this plan may still make.
    left: u64,
}

impl Table {
    /// Looks at the next cycle and finds its best assignment. ADUs that have no place look for one in the `order` given, by index in
    /// the cycle.
    pub(super) fn fill(
        &mut self,
        cycle: &Cycle,
        objectives: &Objectives,
        order: &[u32],
        faults: &mut Vec<(ObjectiveId, Faults)>,
    ) {
        let is_new = self.reading.begin(cycle, objectives);
        self.draw_columns(cycle, is_new);
        self.draw_rows(cycle);
        self.concerns.fill(cycle.adus.len(), objectives);
        let all = is_new || self.changed.len() * SLOTS_EACH > self.columns.len();
        let turns = cycle.adus.iter().map(|adu| adu.turn).max();
        let turns = Utility::from(turns.unwrap_or(0).max(1));
        self.worths.of = None;
        self.left = EVALUATIONS_MAX;
        let slots = self.classes.first().iter();
        let arrivals = Arrivals::of(slots.map(|&first| &cycle.slots[first as usize]));
        // Of those in a hurry, the first of a stream is in the greatest.
        let mut age = (None, 0);
        for (at, adu) in cycle.adus.iter().enumerate() {
            age = (
                Some(adu.stream),
                if age.0 == Some(adu.stream) {
                    age.1 + 1
                } else {
                    0
                },
            );
            let concerns = self.concerns.of(at);
            let looks = concerns.iter().map(|&place| self.reading.looks(place));
            let looks = looks.fold(Looks::default(), Looks::union);
            let hurry = if looks.are_timed() {
                STEPS.saturating_sub(age.1).max(1) as Utility
            } else {
                0
            };
            let bias = Bias {
                sent: SENT - TURN_MAX * Utility::from(adu.turn) / turns,
                hurry,
            };
            let left_ms = arrivals.divide(adu);
            let row = &self.rows[self.row_of.node(at)];
            let before = row.before.filter(|&before| {
                // Which slots are in time changes with each moment.
                let is_alike_everywhere = left_ms.is_none() && row.left_ms.is_none();
                !all && is_alike_everywhere
                    && self.concerns_before.of(before as usize) == concerns
                    && looks.same(adu, &row.adu)
            });
            match before {
                None => self.evaluate(cycle, (at, looks, bias, left_ms), objectives, faults),
                Some(_) => self.adjust(cycle, at, bias, objectives, faults),
            }
            let row = &mut self.rows[self.row_of.node(at)];
            // One that was left out is looked at in the next cycle.
            let known = (self.left > 0).then_some(at as u32);
            (row.before, row.bias, row.left_ms) = (known, bias, left_ms);
            row.adu.clone_from(adu);
        }
        std::mem::swap(&mut self.concerns, &mut self.concerns_before);
        for &changed in &self.changed {
            self.columns[changed as usize].change = Change::Nothing;
        }
        let row_of = &self.row_of;
        self.matching
            .settle(order.iter().map(|&adu| row_of.node(adu as usize)));
    }

    /// Finds which slots are new or changed.
    fn draw_columns(&mut self, cycle: &Cycle, is_new: bool) {
        let slots = &cycle.slots;
        self.classes.fill(slots);
        let (matching, columns) = (&mut self.matching, &mut self.columns);
        let names = slots.iter().map(|slot| (slot.channel, slot.sequence));
        self.column_of.update(names, |step| match step {
            Step::Gone(node) => {
                matching.drop_column(node);
                columns.swap_remove(node);
            }
            Step::Come(item) => {
                matching.push_column();
                columns.push(Column {
                    slot: slots[item],
                    place: Place::default(),
                    before: Place::default(),
                    change: Change::All,
                });
            }
        });
        self.places.clear();
        self.places.extend(
            (0_u32..)
                .zip(self.classes.first())
                .map(|(class, &first)| Place {
                    is_phantom: slots[first as usize].is_phantom(),
                    quickness: self.classes.quickness(class),
                }),
        );
        self.changed.clear();
        self.class_of.clear();
        let nodes = self.columns.iter_mut().zip(self.column_of.items());
        for (node, (column, &item)) in (0..).zip(nodes) {
            let slot = &slots[item as usize];
            let class = self.classes.of(item as usize);
            self.class_of.push(class);
            let place = self.places[class as usize];
            if is_new || !self.reading.same(slot, &column.slot) {
                column.change = Change::All;
            } else if column.change == Change::Nothing && place != column.place {
                column.change = Change::Place;
            }
            column.before = std::mem::replace(&mut column.place, place);
            column.slot = *slot;
            if column.change != Change::Nothing {
                self.changed.push(node);
            }
        }
    }

    fn draw_rows(&mut self, cycle: &Cycle) {
        let (matching, rows) = (&mut self.matching, &mut self.rows);
        let names = cycle.adus.iter().map(|adu| (adu.stream, adu.sequence));
        self.row_of.update(names, |step| match step {
            Step::Gone(node) => {
                matching.drop_row(node);
                rows.swap_remove(node);
            }
            Step::Come(item) => {
                matching.push_row(0);
                rows.push(Row {
                    adu: cycle.adus[item].clone(),
                    before: None,
                    bias: Bias::default(),
                    left_ms: None,
                });
            }
        });
    }

    /// Finds what an ADU is worth everywhere.
    fn evaluate(
        &mut self,
        cycle: &Cycle,
        (at, looks, bias, left_ms): (usize, Looks, Bias, Option<f64>),
        objectives: &Objectives,
        faults: &mut Vec<(ObjectiveId, Faults)>,
    ) {
        let adu = &cycle.adus[at];
        let concerns = self.concerns.of(at);
        let is_alike = |&other: &u32| {
            self.concerns.of(other as usize) == concerns
                && looks.same(adu, &cycle.adus[other as usize])
        };
        // What was found for the one before it counts for this one, too.
        if !self.worths.of.as_ref().is_some_and(is_alike) {
            let spots = Spots {
                cycle,
                adu: at as u32,
                slots: self.classes.first(),
                times: self.classes.times(),
                late: &self.late,
            };
            self.late.borrow_mut().clear();
            let cost = (concerns.len() * spots.slots.len()) as u64;
            let is_within = cost <= self.left;
            self.left = if is_within { self.left - cost } else { 0 };
            let concerns = if is_within { concerns } else { &[] };
            self.worths.fill(&spots, concerns, objectives, faults);
        }
        let Worths {
            utilities, biased, ..
        } = &mut self.worths;
        let places = utilities.iter().zip(&self.places);
        biased.clear();
        biased.extend(places.map(|(utility, &place)| utility + bias.tie(place)));
        if let Some(left_ms) = left_ms {
            let classes = self.classes.first().iter().zip(&self.places);
            for (worth, (&first, &place)) in biased.iter_mut().zip(classes) {
                if lifetime::is_late(&cycle.slots[first as usize], left_ms) {
                    *worth = utility(lifetime::LATE) + bias.tie(place);
                }
            }
        }
        let row = self.row_of.node(at);
        if adu.channels == ChannelMask::ALL && adu.bytes <= self.classes.bytes_min() {
            let worths = self.class_of.iter().map(|&class| biased[class as usize]);
            self.matching.write_row(row, worths);
            return;
        }
        let slots = self.columns.iter().map(|column| &column.slot);
        let worths = slots.zip(&self.class_of).map(|(slot, &class)| {
            if fits(adu, slot) {
                biased[class as usize]
            } else {
                -UTILITY_MAX
            }
        });
        self.matching.write_row(row, worths);
    }

    /// Of an ADU that has not changed itself: looks at the slots that have.
    fn adjust(
        &mut self,
        cycle: &Cycle,
        at: usize,
        bias: Bias,
        objectives: &Objectives,
        faults: &mut Vec<(ObjectiveId, Faults)>,
    ) {
        let node = self.row_of.node(at);
        let before = self.rows[node].bias;
        if before != bias {
            let columns = &self.columns;
            self.matching.change_row(node, |column, worth| {
                let column = &columns[column];
                match worth {
                    worth if worth == -UTILITY_MAX => worth,
                    worth => worth + bias.tie(column.place) - before.tie(column.before),
                }
            });
        }
        for &changed in &self.changed {
            let column = &self.columns[changed as usize];
            if column.change == Change::All {
                let slot = &column.slot;
                let worth = if fits(&cycle.adus[at], slot) {
                    let concerns = self.concerns.of(at);
                    let sum = sum_of(cycle, at as u32, slot, concerns, objectives, faults);
                    utility(sum) + bias.tie(column.place)
                } else {
                    -UTILITY_MAX
                };
                self.matching.write(node, changed as usize, worth);
            } else if before == bias {
                let more = bias.tie(column.place) - bias.tie(column.before);
                let worth = self.matching.worth(node, changed as usize);
                if more != 0 && worth != -UTILITY_MAX {
                    self.matching.write(node, changed as usize, worth + more);
                }
            }
        }
    }

    /// Worth of an ADU in a slot that it fits, ties aside.
    pub(super) fn value(&self, adu: usize, slot: usize) -> Utility {
        let (row, column) = (self.row_of.node(adu), self.column_of.node(slot));
        let tie = self.rows[row].bias.tie(self.columns[column].place);
        self.matching.worth(row, column) - tie
    }

    /// In units, of an ADU where it is, if anywhere.
    pub(super) fn of(&self, adu: u32, slot: Option<u32>) -> f64 {
        slot.map_or(0.0, |slot| {
            self.value(adu as usize, slot as usize) as f64 / 1e6
        })
    }

    /// The slot that the best assignment gives an ADU.
    pub(super) fn slot_of(&self, adu: usize) -> Option<u32> {
        let column = self.matching.column_of(self.row_of.node(adu))?;
        Some(self.column_of.item(column) as u32)
    }

    /// Worth of the assignment, with the amounts that break ties.
    #[cfg(test)]
    pub(super) fn utility(&self) -> Utility {
        self.matching.utility()
    }
}

fn fits(adu: &Adu, slot: &Slot) -> bool {
    adu.bytes <= slot.bytes_max && adu.channels.contains(slot.channel as usize)
}
