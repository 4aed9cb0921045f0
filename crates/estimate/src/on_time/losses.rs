//! Losses among the packets of an ADU, from the outcomes of earlier packets in the order of sending.

/// Share of the places in `outcomes` (true: lost) from which on `packets` packets in a row were not lost, within [0, 1]; the last are
/// followed by the first ones. 1 without outcomes. Losses come together, so that this is more than they would leave if they were
/// spread. O(outcomes).
pub fn loss_free(outcomes: impl Iterator<Item = bool>, packets: usize) -> f64 {
    let packets = packets.max(1);
    let free = |gap: usize| (gap + 1).saturating_sub(packets);
    let (mut count, mut places, mut gap) = (0_usize, 0, 0);
    let mut head = None;
    for lost in outcomes {
        count += 1;
        if !lost {
            gap += 1;
            continue;
        }
        match head {
            None => head = Some(gap),
            Some(_) => places += free(gap),
        }
        gap = 0;
    }
    let Some(head) = head else {
        return 1.0;
    };
    (places + free(head + gap)) as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_between_losses_count() {
        let outcomes = |text: &str| text.chars().map(|c| c == 'x').collect::<Vec<_>>();
        let free = |text: &str, packets| loss_free(outcomes(text).into_iter(), packets);
        assert_eq!(free("", 3), 1.0);
        assert_eq!(free("........", 100), 1.0);
        assert_eq!(free("xxxx", 1), 0.0);
        // Two gaps of three: two places each for two packets, none for four.
        assert_eq!(free("x...x...", 1), 0.75);
        assert_eq!(free("x...x...", 2), 0.5);
        assert_eq!(free("x...x...", 4), 0.0);
        // The same losses together: one gap of six.
        assert_eq!(free("...xx...", 4), 3.0 / 8.0);
    }

    proptest! {
        #[test]
        fn more_packets_are_never_safer(
            outcomes in prop::collection::vec(prop::bool::weighted(0.1), 1..200),
            packets in 1_usize..60,
        ) {
            let free = |packets| loss_free(outcomes.iter().copied(), packets);
            prop_assert!((0.0..=1.0).contains(&free(packets)));
            prop_assert!(free(packets + 1) <= free(packets));
        }
    }
}
