//! Allocations counted by thread: bytes held by a piece of work, and bytes allocated in all.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note(counter: &'static std::thread::LocalKey<Cell<u64>>, bytes: usize) {
    // A thread that ends may free after its counters are gone.
    let _ = counter.try_with(|count| count.set(count.get() + bytes as u64));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATED, layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(&ALLOCATED, layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(&ALLOCATED, size);
        note(&FREED, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(&FREED, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Allocations of the work that it ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    /// Bytes allocated, including those freed since.
    pub(crate) total: u64,
    /// Bytes allocated and not freed by the work.
    pub(crate) held: i64,
}

impl Meter {
    pub(crate) fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let now = || (ALLOCATED.get(), FREED.get());
        let (allocated, freed) = now();
        let result = work();
        let (allocated_now, freed_now) = now();
        self.total += allocated_now - allocated;
        self.held += (allocated_now - allocated) as i64 - (freed_now - freed) as i64;
        result
    }
}
