//! Items by key, the smallest first; any of them can be given another key or taken out.

/// An item that is not in the heap.
const OUT: u32 = u32::MAX;

/// A binary heap of items, which are small numbers. O(log items) a change, O(1) to look at the first;
/// allocates only while it grows.
#[derive(Clone, Debug)]
pub(super) struct Heap<K> {
    entries: Vec<(K, u32)>,
    /// The place of each item in `entries`.
    places: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> Heap<K> {
    pub(super) fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The item comes in, or gets another key.
    pub(super) fn put(&mut self, item: u32, key: K) {
        let known = item as usize;
        if self.places.len() <= known {
            self.places.resize(known + 1, OUT);
        }
        let place = match self.places[known] {
            OUT => {
                self.entries.push((key, item));
                self.entries.len() - 1
            }
            place => {
                self.entries[place as usize].0 = key;
                place as usize
            }
        };
        let place = self.rise(place);
        self.sink(place);
    }

    /// The item goes out, if it was in.
    pub(super) fn take(&mut self, item: u32) {
        let place = match self.places.get(item as usize) {
            None | Some(&OUT) => return,
            Some(&place) => place as usize,
        };
        self.places[item as usize] = OUT;
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    pub(super) fn clear(&mut self) {
        for (_, item) in self.entries.drain(..) {
            self.places[item as usize] = OUT;
        }
    }

    /// Moves the entry up to where it belongs, and notes its place.
    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent].0 <= entry.0 {
                break;
            }
            self.set(place, self.entries[parent]);
            place = parent;
        }
        self.set(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let left = 2 * place + 1;
            let Some(&(key, _)) = self.entries.get(left) else {
                break;
            };
            let right = self.entries.get(left + 1);
            let child = left + usize::from(right.is_some_and(|&(other, _)| other < key));
            if entry.0 <= self.entries[child].0 {
                break;
            }
            self.set(place, self.entries[child]);
            place = child;
        }
        self.set(place, entry);
    }

    fn set(&mut self, place: usize, entry: (K, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_that_of_a_plain_search(
            steps in prop::collection::vec((0..40_u32, prop::option::of(0..30_u64)), 1..200),
        ) {
            let mut heap = Heap::default();
            let mut keys = [None; 40];
            for (step, (item, key)) in steps.into_iter().enumerate() {
                match key {
                    Some(key) => heap.put(item, (key, item)),
                    None if step % 50 == 49 => {
                        heap.clear();
                        keys = [None; 40];
                    }
                    None => heap.take(item),
                }
                keys[item as usize] = key;
                let first = (0..40).filter_map(|item| Some((keys[item as usize]?, item))).min();
                prop_assert_eq!(heap.first().map(|(key, _)| key), first);
            }
        }
    }
}
