//! Independent parts of an experiment on all cores.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// Parts of all maps that run now: those that are done, and all.
static UNDER_WAY: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Parts of what runs now in this process: those that are done, and all that are known so far.
pub fn under_way() -> (usize, usize) {
    let [done, all] = UNDER_WAY
        .each_ref()
        .map(|count| count.load(Ordering::Relaxed));
    (done.min(all), all)
}

/// Counts the parts of a map as long as it runs.
struct Counted {
    all: usize,
    done: AtomicUsize,
}

impl Counted {
    fn new(all: usize) -> Self {
        UNDER_WAY[1].fetch_add(all, Ordering::Relaxed);
        let done = AtomicUsize::new(0);
        Self { all, done }
    }

    fn note_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        UNDER_WAY[0].fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        UNDER_WAY[1].fetch_sub(self.all, Ordering::Relaxed);
        UNDER_WAY[0].fetch_sub(self.done.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Applies `work` to every item, on as many threads as there are cores; results keep the order of the
/// items, so they do not depend on the number of threads.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(items.len().max(1));
    let next = AtomicUsize::new(0);
    let counted = Counted::new(items.len());
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        return;
                    };
                    let result = work(item);
                    counted.note_done();
                    let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                    results[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results
        .into_iter()
        .map(|result| result.expect("every item was worked on"))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn keeps_the_order() {
        let items: Vec<u64> = (0..100).collect();
        let squares = super::map(&items, |n| n * n);
        assert_eq!(squares, items.iter().map(|n| n * n).collect::<Vec<_>>());
    }

    /// Others may run beside this test.
    #[test]
    fn parts_are_counted_while_they_run() {
        let all = super::map(&[1, 2, 3], |_| super::under_way().1);
        assert!(all.iter().all(|&all| all >= 3), "{all:?}");
        let (done, all) = super::under_way();
        assert!(done <= all);
    }
}
