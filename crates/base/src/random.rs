//! Reproducible randomness: a seed is split into named streams, one per purpose.
//!
//! Adding a draw to one purpose does not shift any other, so a seed keeps meaning the same run when
//! the code around it grows.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Root of all randomness of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

/// One stream of random numbers, for one purpose.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Seed {
    /// The stream for the purpose called `name`.
    pub fn stream(self, name: &str) -> Random {
        let high = fnv1a(name.as_bytes(), self.0 ^ 0xcbf2_9ce4_8422_2325);
        let low = fnv1a(&self.0.to_le_bytes(), high);
        let mut rng = Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low) | 1);
        // The first outputs of a multiplicative generator follow its seed too closely.
        for _ in 0..4 {
            rng.next_u64();
        }
        Random(rng)
    }

    /// A separate seed for the part called `name` (a node, a link, a run of a series).
    pub fn child(self, name: &str) -> Self {
        Self(self.stream(name).bits())
    }
}

/// FNV-1a, enough to spread names over seeds; not a cryptographic hash.
fn fnv1a(bytes: &[u8], basis: u64) -> u64 {
    bytes.iter().fold(basis, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`; always false for `p <= 0`, always true for `p >= 1`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A whole number uniform in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A whole number uniform in `low..=high`.
    ///
    /// # Panics
    /// When `low > high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "empty range {low}..={high}");
        low + self.below((high - low).saturating_add(1))
    }

    /// A number uniform in [`low`, `high`).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Exponentially distributed with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Normally distributed (Box–Muller).
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.unit();
        mean + deviation * radius * angle.cos()
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// 32 random bytes, for seeding a generator elsewhere.
    pub fn seed_bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream() {
        let a: Vec<u64> = (0..8).map(|_| 0).collect();
        let mut x = Seed(7).stream("loss");
        let mut y = Seed(7).stream("loss");
        let xs: Vec<u64> = a.iter().map(|_| x.bits()).collect();
        let ys: Vec<u64> = a.iter().map(|_| y.bits()).collect();
        assert_eq!(xs, ys);
    }

    #[test]
    fn names_and_seeds_separate_streams() {
        let first = |seed, name: &str| Seed(seed).stream(name).bits();
        assert_ne!(first(7, "loss"), first(7, "jitter"));
        assert_ne!(first(7, "loss"), first(8, "loss"));
        assert_ne!(Seed(7).child("a"), Seed(7).child("b"));
    }

    #[test]
    fn moments_are_right() {
        let mut random = Seed(1).stream("moments");
        let n = 100_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || random.unit()) - 0.5).abs() < 0.01);
        let mut random = Seed(2).stream("moments");
        assert!((mean(&mut || random.exponential(3.0)) - 3.0).abs() < 0.1);
        let mut random = Seed(3).stream("moments");
        assert!((mean(&mut || random.normal(5.0, 2.0)) - 5.0).abs() < 0.1);
    }

    #[test]
    fn below_stays_below() {
        let mut random = Seed(4).stream("below");
        let mut seen = [false; 6];
        for _ in 0..1000 {
            seen[random.below(6) as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(random.below(0), 0);
    }
}
