//! Parts of a watched set that are missing because they were late.

use std::collections::BTreeMap;

use crate::{
    wire::{Fault, Item},
    writer::FAULTS_MAX,
};

/// Notes that what is missing of components with a deadline was late, unless the peer gave another reason: where a stream has a lifetime, even
/// the notice that a part is left out may be dropped. Returns the number of parts that were late; at most [`FAULTS_MAX`] are noted.
pub(super) fn note(
    faults: &mut BTreeMap<(u64, u16), Fault>,
    missing: &[Item],
    is_due: impl Fn(u16) -> bool,
) -> u64 {
    let mut late = 0;
    for item in missing {
        let (records, components) = match item {
            Item::Records {
                from,
                to,
                components,
                ..
            } => (*from..*to, &components[..]),
            Item::Part {
                record, component, ..
            } => (*record..record + 1, std::slice::from_ref(component)),
        };
        for &component in components.iter().filter(|component| is_due(**component)) {
            for record in records.clone() {
                if faults.len() >= FAULTS_MAX {
                    break;
                }
                faults.entry((record, component)).or_insert(Fault::Late);
            }
            let of_component = faults.range((records.start, 0)..(records.end, 0));
            let others = of_component
                .filter(|((_, of), fault)| *of == component && **fault != Fault::Late)
                .count();
            late += (records.end - records.start).saturating_sub(others as u64);
        }
    }
    late
}

/// Number of the faults that are of parts that were late.
pub(super) fn count(faults: &BTreeMap<(u64, u16), Fault>) -> u64 {
    let late = faults.values().filter(|fault| **fault == Fault::Late);
    late.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(from: u64, to: u64, component: u16) -> Item {
        Item::Records {
            from,
            to,
            components: vec![component],
            bytes: None,
        }
    }

    #[test]
    fn what_is_missing_without_a_reason_was_late_if_it_had_a_deadline() {
        let part = Item::Part {
            record: 9,
            component: 1,
            version: 3,
            ranges: vec![(0, 10)],
        };
        let missing = [records(0, 3, 0), records(4, 6, 1), part];
        let mut faults = BTreeMap::from([((5, 1), Fault::Missing), ((1, 0), Fault::Short)]);
        assert_eq!(note(&mut faults, &missing, |component| component == 1), 2);
        let expected = [
            ((1, 0), Fault::Short),
            ((4, 1), Fault::Late),
            ((5, 1), Fault::Missing),
            ((9, 1), Fault::Late),
        ];
        assert_eq!(faults, BTreeMap::from(expected));
        assert_eq!(count(&faults), 2);
    }

    #[test]
    fn what_is_too_much_to_be_noted_is_counted() {
        let mut faults = BTreeMap::from([((7, 0), Fault::Missing)]);
        let late = note(&mut faults, &[records(0, 1 << 40, 0)], |_| true);
        assert_eq!((late, faults.len()), ((1 << 40) - 1, FAULTS_MAX));
    }
}
