//! Rival guesses of a round trip; the one that was best recently is chosen.

use super::{
    distribution::Distribution,
    spread::{Guess, Spread},
};

/// Weight of a new error in a guess's mean error.
const WEIGHT: f64 = 0.01;
/// Factor by which another guess must be better than the first to be chosen: the first is the simplest.
const BETTER: f64 = 0.97;
/// Truths that a guess's error needs.
const TRUTHS_MIN: u32 = 50;

/// `N` guesses, the first always with a guess once there is any; each with its own [`Spread`] in each of `Z` situations.
#[derive(Clone, Debug)]
pub(super) struct Rivals<const N: usize, const Z: usize> {
    spreads: [[Spread; Z]; N],
    errors_ms: [f64; N],
    truths: u32,
    /// The last question, and its answer; until the next truth it stays the same.
    answered: Option<(usize, usize, Guess, Distribution)>,
}

impl<const N: usize, const Z: usize> Rivals<N, Z> {
    pub(super) fn new() -> Self {
        Self {
            spreads: std::array::from_fn(|_| std::array::from_fn(|_| Spread::new())),
            errors_ms: [0.0; N],
            truths: 0,
            answered: None,
        }
    }

    /// The truth about guesses made in situation `zone`. A guess that had none is charged with the error of the first,
    /// which would have been asked instead.
    pub(super) fn score(&mut self, guesses: &[Guess; N], zone: usize, truth_ms: f64) {
        if !guesses[0].is_some() || !truth_ms.is_finite() {
            return;
        }
        self.truths = self.truths.saturating_add(1);
        self.answered = None;
        let weight = WEIGHT.max(1.0 / f64::from(self.truths));
        for (rival, guess) in guesses.iter().enumerate() {
            let asked = if guess.is_some() { guess } else { &guesses[0] };
            let error = (truth_ms - asked.centre_ms).abs();
            self.errors_ms[rival] += weight * (error - self.errors_ms[rival]);
            if guess.is_some() {
                self.spreads[rival][zone].observe(*guess, truth_ms);
            }
        }
    }

    /// The best of those that have a guess.
    pub(super) fn best(&self, guesses: &[Guess; N]) -> usize {
        if self.truths < TRUTHS_MIN {
            return 0;
        }
        let mut best = (0, self.errors_ms[0] * BETTER);
        for (rival, guess) in guesses.iter().enumerate().skip(1) {
            if guess.is_some() && self.errors_ms[rival] < best.1 {
                best = (rival, self.errors_ms[rival]);
            }
        }
        best.0
    }

    /// Distribution that the guess of `rival` stands for in situation `zone`.
    pub(super) fn around(&self, rival: usize, zone: usize, guess: Guess) -> Distribution {
        self.spreads[rival][zone].around(guess)
    }

    /// Distribution that the best of the guesses stands for; `None` while there is none.
    pub(super) fn ask(&mut self, guesses: &[Guess; N], zone: usize) -> Option<Distribution> {
        let rival = self.best(guesses);
        let guess = guesses[rival];
        if !guess.is_some() {
            return None;
        }
        if let Some((last_rival, last_zone, last, answer)) = self.answered
            && (last_rival, last_zone, last) == (rival, zone, guess)
        {
            return Some(answer);
        }
        let answer = self.around(rival, zone, guess);
        self.answered = Some((rival, zone, guess, answer));
        Some(answer)
    }
}
