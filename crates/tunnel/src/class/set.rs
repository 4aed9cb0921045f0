//! The classes of one side of a membership, and what arrives on their streams.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use anabranch::{Stream, StreamFailure, base::Instant, net::session::Adu};

use super::{Class, Limit};
use crate::{numbers::CLASSES_MAX, outlet::Outlet};

/// The classes, of a bounded number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    places: Mutex<Places>,
    /// Number of those with a stream: most sides have none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Places {
    classes: [Option<Arc<Class>>; CLASSES_MAX],
    /// Of the task that reads the streams.
    waker: Option<Waker>,
}

/// ADUs that have arrived, those of one stream after those of another.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) adus: Vec<Adu>,
    /// The classes of the first ADUs, with the number of theirs. The others have none.
    pub(crate) classes: Vec<(Arc<Class>, usize)>,
}

impl Classes {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a class; `None`: there are as many as may be.
    pub(crate) fn add(&self, beside: &Outlet, limit: Limit, now: Instant) -> Option<Arc<Class>> {
        let mut places = self.lock();
        let free = places.classes.iter().position(Option::is_none)?;
        let class = Arc::new(Class::new(free as u8, beside, limit, now));
        places.classes[free] = Some(class.clone());
        beside.numbers().keep();
        self.count.fetch_add(1, Ordering::Release);
        Some(class)
    }

    /// Gives a class its stream, which is read from now on.
    pub(crate) fn open(&self, class: &Class, stream: Stream) {
        let mut own = class.stream.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some(stream);
        drop(own);
        if let Some(waker) = self.lock().waker.take() {
            waker.wake();
        }
    }

    /// Ends a class, and removes it. Packets that wait in it go to `rest`.
    pub(crate) fn remove(&self, class: &Arc<Class>, rest: &Outlet) {
        class.end(None);
        let mut places = self.lock();
        let place = &mut places.classes[usize::from(class.place())];
        if place.as_ref().is_some_and(|own| Arc::ptr_eq(own, class)) {
            *place = None;
            self.count.fetch_sub(1, Ordering::Release);
        }
        drop(places);
        class.queues.move_all(rest);
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Takes what has arrived on the streams of all classes; true if that is anything. A class whose stream is over ends. The task is woken
    /// when more arrives, or a stream is added.
    pub(crate) fn poll_arrived(
        &self,
        cx: &Context<'_>,
        arrived: &mut Arrived,
        bytes_max: usize,
    ) -> bool {
        let mut places = self.lock();
        if !places
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            places.waker = Some(cx.waker().clone());
        }
        if self.is_empty() {
            return false;
        }
        let classes = places.classes.clone();
        drop(places);
        for class in classes.into_iter().flatten() {
            let Some(stream) = class.stream() else {
                continue;
            };
            let before = arrived.adus.len();
            match stream.poll_recv_many(cx, &mut arrived.adus, bytes_max) {
                Poll::Ready(Ok(true)) => {
                    let count = arrived.adus.len() - before;
                    arrived.classes.push((class, count));
                }
                Poll::Ready(Ok(false)) => class.end(None),
                Poll::Ready(Err(StreamFailure::Reset(code) | StreamFailure::Stopped(code))) => {
                    class.end(Some(code));
                }
                Poll::Ready(Err(_)) => class.end(None),
                Poll::Pending => {}
            }
        }
        !arrived.adus.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fq_codel::Packet, numbers::first_of};

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn places_are_bounded_and_used_again() {
        let (classes, rest) = (Classes::default(), Outlet::new(1 << 20));
        let all: Vec<Arc<Class>> = (0..CLASSES_MAX)
            .map(|_| classes.add(&rest, Limit::None, at(0)).unwrap())
            .collect();
        assert!(classes.add(&rest, Limit::None, at(0)).is_none());
        assert!(!classes.is_empty() && all[3].place() == 3);
        classes.remove(&all[3], &rest);
        classes.remove(&all[3], &rest);
        assert!(all[3].is_over() && classes.lock().classes[3].is_none());
        let again = classes.add(&rest, Limit::None, at(0)).unwrap();
        assert_eq!(again.place(), 3);
        // The one that had the place before does not take it.
        classes.remove(&all[3], &rest);
        assert!(classes.lock().classes[3].is_some());
        for class in all.iter().chain([&again]) {
            classes.remove(class, &rest);
        }
        assert!(classes.is_empty());
    }

    #[test]
    fn what_waits_in_a_class_that_ends_is_carried_with_the_rest() {
        let (classes, rest) = (Classes::default(), Outlet::new(1 << 20));
        let class = classes.add(&rest, Limit::None, at(0)).unwrap();
        let bucket = first_of(class.place()) + 5;
        for byte in 0..3 {
            class
                .queues
                .push_into(at(1), bucket, Packet::new(&[byte; 40]));
        }
        classes.remove(&class, &rest);
        let mut queues = rest.lock();
        let popped: Vec<(u16, u8)> = std::iter::from_fn(|| queues.pop(at(2)))
            .map(|(bucket, packet)| (bucket, packet.ip()[0]))
            .collect();
        assert_eq!(popped, [(bucket, 0), (bucket, 1), (bucket, 2)]);
    }
}
