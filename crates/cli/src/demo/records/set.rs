//! The set of the demonstration: three components of real climate fields, or of noise in the same shape.

use std::{borrow::Cow, fmt::Write, fs, path::Path};

use anabranch::base::Seed;
use anabranch_records::wire::Digest;

use crate::exit::{Failure, Outcome};

/// Records of a second.
pub(super) const RATE: u64 = 25;
/// Name of the set.
pub(super) const NAME: &str = "climate";
/// Most seconds for which the fields have records.
pub(super) const SECONDS_MAX: u64 = 40;

/// Sizes of the parts of a record, in bytes: a tenth of those of DT1, DT2 and DT3 [IQ-Paths §VI-C].
const SIZES: [u64; 3] = [17_280, 12_800, 38_400];
/// Share of seconds in which each component must get its rate.
pub(super) const PROMISES: [Option<f64>; 3] = [Some(0.95), Some(0.9), None];
/// Distance between two records of a field: a row of 480 longitudes of two bytes.
const ROW_BYTES: u64 = 960;

/// `eraint_uvz.nc` of the tutorial data of xarray: its length, and its BLAKE3 hash.
const FIELDS_BYTES: usize = 4_168_980;
const FIELDS_HASH: &str = "0f456119fd0d394f60bfbabe4a8340e44d520d407253df598c421549806cfd80";
/// Offsets of its fields z, u and v, of 2 · 3 · 241 · 480 values of two bytes each: months, levels, latitudes, longitudes.
const FIELDS: [(&str, u64); 3] = [("z", 4_492), ("u", 1_392_652), ("v", 2_780_812)];
/// Names of the components of a generated set.
const GENERATED: [&str; 3] = ["DT1", "DT2", "DT3"];

/// Source and size of a set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// Contents of the file with all records.
    pub(super) data: Cow<'static, [u8]>,
    /// Names of the components.
    pub(super) names: [&'static str; 3],
    /// Bytes of each component's parts.
    pub(super) sizes: [u64; 3],
    /// Number of records.
    pub(super) records: u64,
    file: &'static str,
}

impl Set {
    /// A set of so many records, from the file with the fields, or generated. `scale` multiplies the sizes.
    ///
    /// # Errors
    /// The file cannot be read, or is another one.
    pub(super) fn new(
        fields: Option<&Path>,
        records: u64,
        scale: u64,
        seed: u64,
    ) -> Result<Self, Failure> {
        let (data, names, file) = match fields {
            Some(path) => (read(path)?, FIELDS.map(|(name, _)| name), "eraint_uvz.nc"),
            None => (noise(seed), GENERATED, "generated.dat"),
        };
        Ok(Self {
            data: data.into(),
            names,
            sizes: SIZES.map(|size| size * scale),
            records,
            file,
        })
    }

    /// Rate of a component, in bit/s.
    pub(super) fn rate_bps(&self, component: usize) -> u64 {
        8 * self.sizes[component] * RATE
    }

    /// Writes the directory of the set.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder).map_err(Failure::file)?;
        fs::write(folder.join(self.file), &self.data).map_err(Failure::file)?;
        fs::write(folder.join("records.toml"), self.manifest()).map_err(Failure::file)
    }

    /// Its manifest: record *n* of a component begins at row *n* of its field, so that neighbours share rows.
    fn manifest(&self) -> String {
        let mut text = format!("name = \"{NAME}\"\nrate = \"{RATE}/s\"\n");
        for (index, name) in self.names.iter().enumerate() {
            let (size, offset) = (self.sizes[index], FIELDS[index].1);
            let file = self.file;
            // Writing to a text does not fail.
            let _ = write!(
                text,
                "\n[[component]]\nname = \"{name}\"\nfile = \"{file}\"\nsize = {size}\noffset = {offset}\nstride = {ROW_BYTES}\n"
            );
            if let Some(share) = PROMISES[index] {
                let _ = writeln!(text, "promise = {share}");
            }
        }
        let _ = write!(text, "\n[records]\ncount = {}\n", self.records);
        text
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let data = fs::read(path)
        .map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))?;
    if data.len() == FIELDS_BYTES && Digest::of(&data).to_string() == FIELDS_HASH {
        return Ok(data);
    }
    Err(Failure::file(format!(
        "{} is not the eraint_uvz.nc whose places of z, u and v are known here ({FIELDS_BYTES} bytes, BLAKE3 {FIELDS_HASH}); \
         without --fields, a set is generated",
        path.display()
    )))
}

fn noise(seed: u64) -> Vec<u8> {
    let mut random = Seed(seed).stream("records");
    let words = (0..FIELDS_BYTES / 8 + 1).flat_map(|_| random.bits().to_le_bytes());
    words.take(FIELDS_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use anabranch_records::recordset::Manifest;

    use super::*;

    #[test]
    fn every_record_lies_in_its_field() {
        for scale in [1, 10] {
            let set = Set::new(None, RATE * SECONDS_MAX, scale, 1).unwrap();
            let manifest = Manifest::from_toml(&set.manifest()).unwrap();
            assert_eq!(manifest.len(), 1_000);
            assert_eq!(manifest.rate, Some(25.0));
            for (index, (_, begin)) in FIELDS.iter().enumerate() {
                let field = 2 * 3 * 241 * 480 * 2;
                let last = begin + ROW_BYTES * (manifest.len() - 1) + set.sizes[index];
                assert!(last <= begin + field, "scale {scale}, field {index}");
                assert_eq!(manifest.components[index].service.promise, PROMISES[index]);
            }
        }
    }

    #[test]
    fn another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eraint_uvz.nc");
        let missing = Set::new(Some(&path), 25, 1, 1).unwrap_err();
        assert!(missing.message().contains("cannot read"), "{missing:?}");
        fs::write(&path, noise(1)).unwrap();
        let other = Set::new(Some(&path), 25, 1, 1).unwrap_err();
        assert!(other.message().contains("without --fields"), "{other:?}");
    }
}
