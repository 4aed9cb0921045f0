//! Notes on a transfer that stands still: a running node holds the data, and its paths are not the command's to show.

use std::time::Duration;

use tokio::time::{self, Instant};

/// Time without progress after which it is noted, once.
const AFTER: Duration = Duration::from_secs(10);
/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Passes to `note` that what was `moved` has not changed for a while, and that it changes again; does not return.
pub(super) async fn watch<Moved: PartialEq>(moved: impl Fn() -> Moved, note: impl Fn(&str)) {
    let (mut last, mut since, mut is_noted) = (moved(), Instant::now(), false);
    loop {
        time::sleep(EVERY).await;
        let now = moved();
        if now != last {
            if is_noted {
                note("the transfer goes on");
            }
            (last, since, is_noted) = (now, Instant::now(), false);
        } else if !is_noted && since.elapsed() >= AFTER {
            note(&format!(
                "no progress for {} s: the receiver has not answered, or no path reaches it; 'anabranch paths' shows them",
                AFTER.as_secs()
            ));
            is_noted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_standstill_is_noted_once_and_so_is_its_end() {
        let moved = Cell::new(0);
        let notes = RefCell::new(Vec::new());
        let watching = watch(
            || moved.get(),
            |text| notes.borrow_mut().push(text.to_owned()),
        );
        tokio::pin!(watching);
        let mut pass = async |seconds: u64| {
            let _ =
                time::timeout(Duration::from_millis(1_000 * seconds + 500), &mut watching).await;
        };
        pass(9).await;
        assert!(notes.borrow().is_empty());
        pass(60).await;
        assert_eq!(notes.borrow().len(), 1, "{notes:?}");
        assert!(notes.borrow()[0].contains("no progress for 10 s"));
        moved.set(moved.get() + 1);
        pass(2).await;
        assert_eq!(notes.borrow()[1..], ["the transfer goes on"]);
        for _ in 0..20 {
            moved.set(moved.get() + 1);
            pass(3).await;
        }
        assert_eq!(notes.borrow().len(), 2, "{notes:?}");
    }
}
