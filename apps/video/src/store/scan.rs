//! Scan of the folder for the data of an earlier run.

use std::{fs, io, path::Path};

use super::{Class, Part, VideoKey, catalogue::Catalogue, file};

/// File with the popularity of the videos, by the name of their folder.
pub(super) const POPULARITY: &str = "popularity.json";
/// Maximum size of the file of popularity; a larger one is not valid.
const POPULARITY_BYTES_MAX: u64 = 16 << 20;

/// Name of the file of a part; it contains the class, so that a start need not open every file.
pub(super) fn file_name(part: Part, class: Class) -> String {
    let class = match class {
        Class::Body => "",
        Class::Prefix => ".prefix",
    };
    match part {
        Part::Index => format!("index{class}"),
        Part::Essential(chunk) => format!("{chunk:08}.essential{class}"),
        Part::Enhanced(chunk) => format!("{chunk:08}.enhanced{class}"),
    }
}

pub(super) fn part_of(name: &str) -> Option<(Part, Class)> {
    let (stem, class) = match name.strip_suffix(".prefix") {
        Some(stem) => (stem, Class::Prefix),
        None => (name, Class::Body),
    };
    let part = match stem.split_once('.') {
        None if stem == "index" => Part::Index,
        Some((chunk, "essential")) => Part::Essential(chunk.parse().ok()?),
        Some((chunk, "enhanced")) => Part::Enhanced(chunk.parse().ok()?),
        _ => return None,
    };
    (file_name(part, class) == name).then_some((part, class))
}

/// Lists the parts in the folder. Files that were being written are removed; files of others are left alone.
pub(super) fn scan(folder: &Path, limit_bytes: u64) -> io::Result<Catalogue> {
    let mut catalogue = Catalogue::new(limit_bytes);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(file::TEMPORARY) {
            let _ = fs::remove_file(entry.path());
        } else if let Some(key) = VideoKey::of_folder(name)
            && entry.file_type()?.is_dir()
        {
            scan_video(&entry.path(), key, &mut catalogue)?;
        }
    }
    let path = folder.join(POPULARITY);
    if fs::metadata(&path).is_ok_and(|found| found.len() <= POPULARITY_BYTES_MAX)
        && let Ok(text) = fs::read_to_string(&path)
    {
        catalogue.restore_popularity(&text);
    }
    Ok(catalogue)
}

fn scan_video(folder: &Path, key: VideoKey, catalogue: &mut Catalogue) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((part, class)) = name.to_str().and_then(part_of) else {
            continue;
        };
        let metadata = entry.metadata()?;
        if metadata.is_file() && !catalogue.restore(key, part, class, metadata.len()) {
            // Both classes of one part: a crash between two steps. One is enough.
            let _ = fs::remove_file(folder.join(file_name(part, Class::Body)));
        }
    }
    // Fails while the folder contains anything.
    let _ = fs::remove_dir(folder);
    Ok(())
}
