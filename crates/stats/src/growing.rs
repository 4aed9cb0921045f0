//! Rings that take memory as they fill: a window of hundreds of samples costs a path that carries nothing hardly anything.

/// Smallest capacity that is allocated.
const FEWEST: usize = 4;

/// Appends `value` to a list that never holds more than `most`; the capacity doubles, up to `most`.
pub(crate) fn push<T>(list: &mut Vec<T>, value: T, most: usize) {
    reserve(list, 1, most);
    list.push(value);
}

/// Stores `value` at `place` of a ring of `most`, which is filled from the beginning: `place` is in use, or the first that is not.
pub(crate) fn set<T>(ring: &mut Vec<T>, place: usize, value: T, most: usize) {
    match ring.get_mut(place) {
        Some(held) => *held = value,
        None => push(ring, value, most),
    }
}

/// Ensures that `more` values can be appended to a list that never holds more than `most`.
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize, most: usize) {
    let need = list.len() + more;
    if need > list.capacity() {
        let doubled = (2 * list.capacity()).clamp(FEWEST, most.max(FEWEST));
        list.reserve_exact(doubled.min(most).max(need) - list.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_takes_what_it_holds() {
        let mut ring: Vec<u64> = Vec::new();
        assert_eq!(ring.capacity(), 0);
        for number in 0..1200_u64 {
            set(&mut ring, number as usize % 500, number, 500);
            assert!(ring.capacity() <= (2 * ring.len()).clamp(FEWEST, 500));
        }
        assert!(ring.iter().copied().eq((1000..1200).chain(700..1000)));
        let mut short: Vec<u64> = Vec::new();
        push(&mut short, 1, 3);
        assert_eq!(short.capacity(), 3);
    }
}
