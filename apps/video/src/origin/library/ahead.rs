//! Read-ahead while an index is made: the headers of all frames are read, one after the other, and an object store would need a
//! request for each.

use std::io;

use super::place::{Film, ReadError};

/// A film that is read in larger pieces than requested.
pub(super) struct Ahead<'a> {
    film: &'a dyn Film,
    window: Vec<u8>,
    /// Position at which the window begins in the film.
    window_at: u64,
    /// True if the film has changed.
    pub(super) is_changed: bool,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(film: &'a dyn Film) -> Self {
        Self {
            film,
            window: Vec::new(),
            window_at: 0,
            is_changed: false,
        }
    }

    /// Fills `into` with the bytes from `offset` on.
    pub(super) fn read_at(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let read = self.read(offset, into);
        read.map_err(|error| match error {
            ReadError::Changed => {
                self.is_changed = true;
                io::Error::other("it has changed")
            }
            ReadError::Io(error) => error,
        })
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let most = self.film.ahead_bytes();
        if into.len() >= most {
            return self.film.read(offset, into);
        }
        let end = offset.saturating_add(into.len() as u64);
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || end > window_end {
            // Reads in order, even with steps as long as large frames, get more and more at a time; jumps do not pay for it.
            let step = (most / 4) as u64;
            let follows = offset >= self.window_at && offset <= window_end.saturating_add(step);
            let bytes = if follows { 4 * self.window.len() } else { 0 };
            let bytes = bytes.clamp(into.len().max(most / 64), most);
            let left = self.film.stamp().bytes.saturating_sub(offset);
            let bytes = left.min(bytes as u64).max(into.len() as u64);
            let mut window = std::mem::take(&mut self.window);
            window.resize(bytes as usize, 0);
            self.film.read(offset, &mut window)?;
            self.window = window;
            self.window_at = offset;
        }
        let from = (offset - self.window_at) as usize;
        into.copy_from_slice(&self.window[from..from + into.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{super::place::Stamp, *};

    /// A film whose bytes are their offsets, modulo 251; counts the reads.
    #[derive(Debug)]
    struct Counted {
        stamp: Stamp,
        ahead: usize,
        asked: Mutex<Vec<(u64, usize)>>,
    }

    impl Counted {
        fn new(bytes: u64, ahead: usize) -> Self {
            let mark = String::new();
            Self {
                stamp: Stamp { bytes, mark },
                ahead,
                asked: Mutex::default(),
            }
        }
    }

    impl Film for Counted {
        fn stamp(&self) -> &Stamp {
            &self.stamp
        }
        fn gap_bytes(&self) -> usize {
            0
        }
        fn ahead_bytes(&self) -> usize {
            self.ahead
        }
        fn check(&self) -> Result<(), ReadError> {
            Ok(())
        }
        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
            assert!(offset + into.len() as u64 <= self.stamp.bytes, "beyond");
            self.asked.lock().unwrap().push((offset, into.len()));
            for (at, byte) in (offset..).zip(into) {
                *byte = (at % 251) as u8;
            }
            Ok(())
        }
    }

    fn check(ahead: &mut Ahead<'_>, offset: u64, bytes: usize) {
        let mut into = vec![0; bytes];
        ahead.read_at(offset, &mut into).unwrap();
        let expected = (offset..).map(|at| (at % 251) as u8);
        assert!(into.into_iter().eq(expected.take(bytes)));
    }

    #[test]
    fn reading_in_order_takes_few_requests() {
        let film = Counted::new(10_000_000, 1 << 20);
        let mut ahead = Ahead::new(&film);
        // Two thousand frames of 5 kB.
        for frame in 0..2_000 {
            check(&mut ahead, frame * 5_000, 128);
        }
        let asked = film.asked.lock().unwrap();
        assert!(asked.len() <= 14, "{}", asked.len());
        let bytes: usize = asked.iter().map(|&(_, bytes)| bytes).sum();
        assert!(bytes <= 10_100_000, "{bytes}");
    }

    /// The same for a film of 50 Mbit/s.
    #[test]
    fn long_steps_are_order_as_well() {
        let film = Counted::new(50_000_000, 1 << 20);
        let mut ahead = Ahead::new(&film);
        for frame in 0..200 {
            check(&mut ahead, frame * 250_000, 128);
        }
        let asked = film.asked.lock().unwrap();
        assert!(asked.len() <= 55, "{}", asked.len());
    }

    #[test]
    fn jumping_about_reads_little() {
        let film = Counted::new(1 << 30, 1 << 20);
        let mut ahead = Ahead::new(&film);
        for step in 0..20 {
            check(&mut ahead, (step * 7_919 % 20) * 50_000_000, 8);
        }
        let asked = film.asked.lock().unwrap();
        assert!(asked.iter().all(|&(_, bytes)| bytes <= 16 << 10));
    }

    #[test]
    fn the_end_is_the_end() {
        let film = Counted::new(1_000, 1 << 20);
        let mut ahead = Ahead::new(&film);
        check(&mut ahead, 990, 10);
        check(&mut ahead, 0, 1_000);
        check(&mut ahead, 999, 1);
    }

    #[test]
    fn a_disk_is_read_as_asked() {
        let film = Counted::new(1_000, 0);
        let mut ahead = Ahead::new(&film);
        check(&mut ahead, 10, 20);
        check(&mut ahead, 30, 20);
        assert_eq!(*film.asked.lock().unwrap(), [(10, 20), (30, 20)]);
    }
}
