//! Checksum and first sample of a lead, as a header states them.

use super::{Format, Lead};

/// Sum over the samples of a lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The first sample.
    pub first: Option<i16>,
    /// The 16 low bits of the sum of all samples.
    pub checksum: i16,
}

impl Sum {
    /// Adds a sample, as it is stored in this format.
    pub fn add(&mut self, sample: i16, format: Format) {
        let stored = format.stored(sample);
        self.first.get_or_insert(stored);
        self.checksum = self.checksum.wrapping_add(stored);
    }

    /// Puts a sample in the place of another one, which was added before; `is_first`: of the first one.
    pub fn replace(&mut self, (old, new): (i16, i16), is_first: bool, format: Format) {
        let (old, new) = (format.stored(old), format.stored(new));
        if is_first {
            self.first = Some(new);
        }
        self.checksum = self.checksum.wrapping_sub(old).wrapping_add(new);
    }

    /// Deviation of a whole lead from what its header states; `None`: there is none.
    pub fn deviation(&self, lead: &Lead) -> Option<String> {
        let name = lead.name();
        if let (Some(stated), Some(first)) = (lead.initial, self.first)
            && stated != i32::from(first)
        {
            return Some(format!(
                "{name} begins with {first}, and not with {stated} as the header states"
            ));
        }
        match lead.checksum {
            Some(stated) if stated != self.checksum => Some(format!(
                "the checksum of {name} is {}, and not {stated} as the header states",
                self.checksum
            )),
            _ => None,
        }
    }
}
