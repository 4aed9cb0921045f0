//! Manifests of record sets, and layouts.

use anabranch_recordset::{Layout, Manifest, Sequence, manifest::Extents};

/// Records of an accepted manifest that are looked up, from its beginning and from its end.
const LOOKED_UP: u64 = 50;

/// A text is a manifest or is refused with a message; every part of an accepted one is below the set's directory, its names lead back
/// to their records, and a layout covers its bytes once.
pub fn record_set(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let manifest = match kind % 2 {
        0 => Manifest::from_toml(&text),
        _ => Manifest::from_json(&text),
    };
    match manifest {
        Ok(manifest) => accepted(&manifest),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(layout) = text.parse::<Layout>() {
        assert_eq!(layout.to_string().parse(), Ok(layout));
    }
}

fn accepted(manifest: &Manifest) {
    let count = manifest.len();
    let beginning = 0..count.min(LOOKED_UP);
    let end = count.saturating_sub(LOOKED_UP)..count;
    for record in beginning.chain(end) {
        let name = manifest.record_name(record).expect("it exists");
        assert_eq!(manifest.find(&name), Some(record), "{name}");
        let mut lengths = Vec::new();
        for component in 0..manifest.components.len() {
            let Some(part) = manifest.part(record, component) else {
                assert!(manifest.components[component].is_optional);
                continue;
            };
            let is_inside = |part: &str| !matches!(part, "" | "." | "..");
            assert!(part.file.split('/').all(is_inside), "{}", part.file);
            assert!(part.extents.end() <= i64::MAX as u64);
            assert!(part.extents.bytes().is_some() || part.extents == Extents::Whole);
            lengths.extend(part.extents.bytes());
        }
        let Some(sequence) = Sequence::new(lengths) else {
            continue;
        };
        let unit = 0..sequence.bytes();
        let pieces = Layout::Partitioned.split(unit.clone(), 3);
        let sum: u64 = pieces
            .flat_map(|(_, piece)| sequence.parts(piece))
            .map(|part| part.range.end - part.range.start)
            .sum();
        assert_eq!(sum, unit.end);
    }
    assert_eq!(manifest.record_name(count), None);
    assert_eq!(manifest.part(count, 0), None);
}
