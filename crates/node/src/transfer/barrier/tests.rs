use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use proptest::prelude::*;

use super::*;

/// A disk that knows how many files were written before each of its syncs, and fails at one of them.
#[derive(Clone, Default)]
struct Fake {
    written: Arc<AtomicU64>,
    synced: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    syncs: u32,
    fails_at: Option<u32>,
    needs_files: bool,
}

impl Disk for Fake {
    fn needs_files(&self) -> bool {
        self.needs_files
    }

    fn sync(&mut self, files: &[File]) -> io::Result<()> {
        self.syncs += 1;
        if self.fails_at == Some(self.syncs) {
            self.failed.store(true, Ordering::SeqCst);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if self.needs_files {
            self.synced.fetch_add(files.len() as u64, Ordering::SeqCst);
        } else {
            let written = self.written.load(Ordering::SeqCst);
            self.synced.store(written, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn file() -> File {
    File::open("/dev/null").unwrap()
}

/// The sum of the reports of a barrier.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Reports {
    sum: Count,
    count: u32,
}

/// Adds files of these sizes; returns the sum of the reports, and the end.
fn run(fake: &Fake, sizes: &[u64]) -> (Reports, io::Result<()>) {
    let reported = Arc::new(Mutex::new(Reports::default()));
    let (reports, disk) = (reported.clone(), fake.clone());
    let mut barrier = Barrier::over(Box::new(fake.clone()), move |count: Count| {
        let mut reports = reports.lock().unwrap();
        reports.count += 1;
        let sum = &mut reports.sum;
        sum.files += count.files;
        sum.bytes += count.bytes;
        let synced = disk.synced.load(Ordering::SeqCst);
        assert!(
            sum.files <= synced,
            "{} reported, {synced} synced",
            sum.files
        );
    })
    .unwrap();
    let adding = sizes.iter().try_for_each(|size| {
        fake.written.fetch_add(1, Ordering::SeqCst);
        barrier.add(file(), *size)
    });
    let ended = adding.and_then(|()| barrier.finish());
    (*reported.lock().unwrap(), ended)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the sizes, and whenever the disk fails: nothing is reported that is not durable, and success is everything. A request
    /// that fails is an error even if every file was reported before it: the last one is for names, too.
    #[test]
    fn what_is_reported_is_durable(
        sizes in prop::collection::vec(0..BATCH_BYTES, 0..600),
        fails_at in prop::option::of(1..6_u32),
        needs_files: bool,
    ) {
        let fake = Fake { fails_at, needs_files, ..Fake::default() };
        let (reported, ended) = run(&fake, &sizes);
        let all = Count { files: sizes.len() as u64, bytes: sizes.iter().sum() };
        prop_assert_eq!(ended.is_err(), fake.failed.load(Ordering::SeqCst));
        match ended {
            Ok(()) => prop_assert_eq!(reported.sum, all),
            Err(error) => {
                prop_assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                prop_assert_eq!(Some(reported.count + 1), fails_at);
                prop_assert!(reported.sum.files <= all.files);
            }
        }
        prop_assert!(reported.sum.files <= fake.synced.load(Ordering::SeqCst));
    }
}

#[test]
fn many_small_files_take_few_requests_and_few_descriptors() {
    let syncs = Arc::new(AtomicU64::new(0));
    struct Counting(Arc<AtomicU64>, bool);
    impl Disk for Counting {
        fn needs_files(&self) -> bool {
            self.1
        }
        fn sync(&mut self, files: &[File]) -> io::Result<()> {
            assert!(files.len() <= OPEN_MAX);
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }
    for (needs_files, most) in [(false, 200), (true, 300)] {
        syncs.store(0, Ordering::SeqCst);
        let disk = Box::new(Counting(syncs.clone(), needs_files));
        let mut barrier = Barrier::over(disk, |_| ()).unwrap();
        for _ in 0..10_000 {
            barrier.add(file(), 2_000).unwrap();
        }
        barrier.finish().unwrap();
        let count = syncs.load(Ordering::SeqCst);
        assert!((1..=most).contains(&count), "{count} of {most}");
    }
}

#[test]
fn a_disk_that_fails_is_reported_by_the_next_file_or_at_the_end() {
    let fake = Fake {
        fails_at: Some(1),
        ..Fake::default()
    };
    let (reported, ended) = run(&fake, &[1]);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(reported, Reports::default());
    let (reported, ended) = run(&fake, &[BATCH_BYTES; 50]);
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(reported, Reports::default());
}

/// A pipe cannot be synced.
#[test]
fn files_are_synced_one_by_one_where_they_must_be() {
    let folder = tempfile::tempdir().unwrap();
    let good = |n: usize| File::create(folder.path().join(n.to_string())).unwrap();
    let mut files: Vec<File> = (0..20).map(good).collect();
    Files.sync(&files).unwrap();
    Files.sync(&[]).unwrap();
    let (_reader, writer) = io::pipe().unwrap();
    files.push(File::from(std::os::fd::OwnedFd::from(writer)));
    assert!(Files.sync(&files).is_err());
}
