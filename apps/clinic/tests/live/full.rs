//! A disk that is full for a while. A small file system in memory needs root; without it, the test prints one line and passes.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anabranch_clinic::{ambulance, hospital::Report, wire::Purpose};
use tokio::time::{sleep, timeout};

use crate::setting::{Car, FREQUENCY, Running, begin, film, kept, loopback, nothing, record};

/// Longest time of the test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A file system in memory, gone when dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "anabranch-test"]);
        if mount
            .arg(&at)
            .output()
            .is_ok_and(|done| done.status.success())
        {
            return Some(Self(at));
        }
        // Bypasses the test harness, which would suppress it.
        let _ = writeln!(
            std::io::stderr(),
            "skipped a_disk_that_is_full…: mounting a small disk needs root"
        );
        None
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    fn fill(&self) {
        let mut filler = fs::File::create(self.filler()).unwrap();
        while filler.write_all(&[0; 512]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn photograph(folder: &Path, name: &str) {
    fs::write(folder.join(name), vec![9; 20_000]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_for_a_while_holds_up_the_record_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(folder.path().join("store")) else {
        return;
    };
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    let (ekg, samples) = record(folder.path(), 8 * FREQUENCY);
    let (film, _) = film(folder.path(), 200);
    let mut hospital = Running::start(&disk.0, loopback());
    let (ambulance, mut reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        film: Some(film),
        stills: Some(pictures.clone()),
        ..nothing(&hospital.ticket)
    });
    let car = Car::new(2);
    let session = car.call(&hospital.ticket).await;
    let mut failed: Vec<(Purpose, String)> = Vec::new();
    let filling = async {
        let mut is_full = false;
        let all = [Purpose::Ekg, Purpose::Video, Purpose::Stills];
        while !all
            .iter()
            .all(|one| failed.iter().any(|(purpose, _)| purpose == one))
        {
            match hospital.reports.recv().await.unwrap() {
                // Numbers come once a second, so there is something of all by then.
                Report::Vital { .. } if !is_full => {
                    is_full = true;
                    disk.fill();
                    photograph(&pictures, "refused.jpg");
                }
                Report::Failed { purpose, why } => failed.push((purpose, why)),
                _ => {}
            }
        }
        sleep(Duration::from_millis(300)).await;
        fs::remove_file(disk.filler()).unwrap();
        photograph(&pictures, "taken.jpg");
    };
    let (ended, ()) = timeout(LONG, async {
        tokio::join!(ambulance.run(&session), filling)
    })
    .await
    .unwrap();
    ended.unwrap();
    while let Ok(report) = hospital.reports.try_recv() {
        if let Report::Failed { purpose, why } = report {
            failed.push((purpose, why));
        }
    }
    // Nothing of the record is missing, and each part said once that the disk is full.
    assert_eq!(kept(&disk.0), (samples, vec![]));
    for purpose in [Purpose::Ekg, Purpose::Video, Purpose::Stills] {
        let of = failed.iter().filter(|(other, _)| *other == purpose);
        let whys: Vec<&String> = of.map(|(_, why)| why).collect();
        assert_eq!(whys.len(), 1, "{failed:?}");
        assert!(whys[0].contains("No space left"), "{failed:?}");
    }
    let mut files = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if let ambulance::Report::Kept { name, why } = report {
            files.push((name, why.is_none()));
        }
    }
    let expected = [
        ("refused.jpg".to_owned(), false),
        ("taken.jpg".to_owned(), true),
    ];
    assert_eq!(files, expected);
    hospital.stop().await;
}
