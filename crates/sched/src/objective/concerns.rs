//! Objectives over one ADU, by the ADUs that they are about.

use anabranch_hose::Objectives;

/// Objectives over one ADU that each ADU of a cycle passes, by place.
#[derive(Debug, Default)]
pub(super) struct Concerns {
    /// Place where those of each ADU begin; one more at the end.
    starts: Vec<u32>,
    places: Vec<u32>,
}

impl Concerns {
    /// Those of this cycle. O(objectives + candidates).
    pub(super) fn fill(&mut self, adus: usize, objectives: &Objectives) {
        let of_cycle = |adus_of: &'_ [u32]| adus_of.partition_point(|&adu| (adu as usize) < adus);
        self.starts.clear();
        self.starts.resize(adus + 2, 0);
        for single in objectives.singles() {
            // Those of the history are where they are.
            for &adu in &single.adus[..of_cycle(single.adus)] {
                self.starts[adu as usize + 2] += 1;
            }
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.places.clear();
        self.places.resize(sum as usize, 0);
        for single in objectives.singles() {
            for &adu in &single.adus[..of_cycle(single.adus)] {
                let next = &mut self.starts[adu as usize + 1];
                self.places[*next as usize] = single.place;
                *next += 1;
            }
        }
    }

    /// Places of an ADU's objectives, in ascending order.
    pub(super) fn of(&self, adu: usize) -> &[u32] {
        &self.places[self.starts[adu] as usize..self.starts[adu + 1] as usize]
    }
}
