//! Bound on the best of all schedules: a fluid upper bound, window by window.
//!
//! Links have a known capacity in each window, streams a strict order of precedence. Data are a fluid that may
//! be split among the links that a stream may use, and all of a window's data are there when it begins, so that
//! no schedule of packets does better. What a promised stream does not get in its window it wants in the
//! next, before what is new; what an elastic stream does not get, it does not miss.
//!
//! For one window this is a linear program in which streams come one after the other (lexicographic): the most
//! that the i-th can get, given what those before it got, is
//!
//! ```text
//! min over sets T of links that hold all of its own:  c(T) − Σ x_k over k < i whose links are all in T
//! ```
//!
//! by Hall's condition for the transportation problem: a split exists if and only if for every set T of
//! links, what may go nowhere else fits: Σ {x_k : links of k within T} ≤ c(T). The sets that streams share
//! capacity in are a polymatroid, so that giving the first as much as it can have takes nothing from the
//! sum that all could have (Edmonds 1970). The tests check it against maximum flow.

/// Most links; the work doubles with each.
const LINKS_MAX: usize = 16;

/// What a stream wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// So many bytes a window, and what was left of those before.
    Promised(f64),
    /// Up to so many bytes a window; infinite: as much as there is.
    Elastic(f64),
}

/// A stream of the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// What it wants.
    pub want: Want,
    /// The links that it may use, one bit each, the first the lowest.
    pub links: u32,
}

impl Stream {
    /// May use all links.
    pub fn anywhere(want: Want) -> Self {
        Self {
            want,
            links: u32::MAX,
        }
    }
}

/// What a stream gets in one window, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// In all.
    pub bytes: f64,
    /// Of these, what was left of earlier windows.
    pub carried: f64,
    /// What is wanted and waits for the next window.
    pub left: f64,
}

/// The bound: `capacity[window][link]` in bytes, streams in order of precedence, the first first; by window and
/// stream. O(windows · streams² · 2^links).
///
/// # Panics
/// With more than 16 links, or windows with different numbers of them.
pub fn upper_bound(capacity: &[Vec<f64>], streams: &[Stream]) -> Vec<Vec<Served>> {
    let mut left = vec![0.0; streams.len()];
    capacity
        .iter()
        .map(|capacity| {
            let wanted: Vec<f64> = streams
                .iter()
                .zip(&left)
                .map(|(stream, left)| match stream.want {
                    Want::Promised(bytes) => bytes + left,
                    Want::Elastic(bytes) => bytes,
                })
                .collect();
            let given = window(capacity, streams, &wanted);
            let mut served = Vec::with_capacity(streams.len());
            for (index, stream) in streams.iter().enumerate() {
                let carried = given[index].min(left[index]);
                left[index] = match stream.want {
                    Want::Promised(_) => wanted[index] - given[index],
                    Want::Elastic(_) => 0.0,
                };
                served.push(Served {
                    bytes: given[index],
                    carried,
                    left: left[index],
                });
            }
            served
        })
        .collect()
}

/// What each stream gets of one window.
fn window(capacity: &[f64], streams: &[Stream], wanted: &[f64]) -> Vec<f64> {
    let links = capacity.len();
    assert!(links <= LINKS_MAX, "at most {LINKS_MAX} links, not {links}");
    let all = (1u32 << links) - 1;
    // Room of every set of links, less what has to go there.
    let mut room: Vec<f64> = (0..=all)
        .map(|set| {
            let within = (0..links).filter(|link| set >> link & 1 == 1);
            within.map(|link| capacity[link]).sum()
        })
        .collect();
    streams
        .iter()
        .zip(wanted)
        .map(|(stream, &wanted)| {
            let own = stream.links & all;
            if own == 0 {
                return 0.0;
            }
            let holds_own = |&set: &u32| set & own == own;
            let most = (0..=all)
                .filter(holds_own)
                .map(|set| room[set as usize])
                .fold(f64::INFINITY, f64::min);
            let given = wanted.min(most).max(0.0);
            for set in (0..=all).filter(holds_own) {
                room[set as usize] -= given;
            }
            given
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    /// Promised 10, then promised 5, then as much as there is, over links of 8 and 4, then 2 and 1, then 20
    /// and 0.
    #[test]
    fn by_hand() {
        let streams = [
            Stream::anywhere(Want::Promised(10.0)),
            Stream::anywhere(Want::Promised(5.0)),
            Stream::anywhere(Want::Elastic(f64::INFINITY)),
        ];
        let capacity = [vec![8.0, 4.0], vec![2.0, 1.0], vec![40.0, 0.0]];
        let served = upper_bound(&capacity, &streams);
        let bytes = |window: usize| served[window].iter().map(|s| s.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(0), [10.0, 2.0, 0.0]);
        assert_eq!(bytes(1), [3.0, 0.0, 0.0]);
        // 7 and 8 are left over, and 10 and 5 are new.
        assert_eq!(bytes(2), [17.0, 13.0, 10.0]);
        assert_eq!(served[1][0].left, 7.0);
        assert_eq!((served[2][0].carried, served[2][1].carried), (7.0, 8.0));
        assert_eq!(served[2][2].left, 0.0);
    }

    /// The first may use the second link only; so the others leave it to it, and lose nothing by that.
    #[test]
    fn links_that_may_not_be_used() {
        let only_second = Stream {
            want: Want::Promised(6.0),
            links: 0b10,
        };
        let capacity = [vec![8.0, 4.0]];
        let other = Stream::anywhere(Want::Promised(7.0));
        let bytes = |streams: &[Stream]| {
            let served = upper_bound(&capacity, streams);
            served[0].iter().map(|s| s.bytes).collect::<Vec<_>>()
        };
        assert_eq!(bytes(&[only_second, other]), [4.0, 7.0]);
        assert_eq!(bytes(&[other, only_second]), [7.0, 4.0]);
        let greedy = Stream::anywhere(Want::Elastic(f64::INFINITY));
        assert_eq!(bytes(&[greedy, only_second]), [12.0, 0.0]);
        let nowhere = Stream {
            links: 0,
            ..only_second
        };
        assert_eq!(bytes(&[nowhere]), [0.0]);
    }

    /// Maximum flow from streams to links by augmenting paths (Ford and Fulkerson), in whole units.
    #[allow(clippy::needless_range_loop)] // Links are the numbers of bits as well as indices.
    fn max_flow(capacity: &[u32], streams: &[Stream], wanted: &[u32]) -> u32 {
        let links = capacity.len();
        let mut flow = vec![vec![0u32; links]; streams.len()];
        let mut total = 0;
        loop {
            // Breadth-first over links; how each was reached.
            let mut reached: Vec<Option<(usize, Option<usize>)>> = vec![None; links];
            let mut queue = Vec::new();
            for (index, stream) in streams.iter().enumerate() {
                if flow[index].iter().sum::<u32>() < wanted[index] {
                    for link in 0..links {
                        if stream.links >> link & 1 == 1 && reached[link].is_none() {
                            reached[link] = Some((index, None));
                            queue.push(link);
                        }
                    }
                }
            }
            let used = |flow: &[Vec<u32>], link: usize| flow.iter().map(|f| f[link]).sum::<u32>();
            let mut at = 0;
            let mut end = None;
            while at < queue.len() {
                let link = queue[at];
                at += 1;
                if used(&flow, link) < capacity[link] {
                    end = Some(link);
                    break;
                }
                for (index, stream) in streams.iter().enumerate() {
                    if flow[index][link] > 0 {
                        for next in 0..links {
                            if stream.links >> next & 1 == 1 && reached[next].is_none() {
                                reached[next] = Some((index, Some(link)));
                                queue.push(next);
                            }
                        }
                    }
                }
            }
            let Some(mut link) = end else { return total };
            total += 1;
            loop {
                let (stream, from) = reached[link].expect("reached");
                flow[stream][link] += 1;
                let Some(before) = from else { break };
                flow[stream][before] -= 1;
                link = before;
            }
        }
    }

    /// In random worlds: what the first i streams get is the most that any split gives the i-th after the
    /// others, which maximum flow finds by trying.
    #[test]
    fn agrees_with_maximum_flow() {
        let mut random = Seed(7).stream("bound");
        for _ in 0..300 {
            let links = 1 + random.below(4) as usize;
            let capacity: Vec<u32> = (0..links).map(|_| random.below(12) as u32).collect();
            let count = 1 + random.below(5) as usize;
            let streams: Vec<Stream> = (0..count)
                .map(|_| Stream {
                    want: Want::Elastic(random.below(12) as f64),
                    links: random.below(1 << links) as u32,
                })
                .collect();
            let wanted: Vec<f64> = streams
                .iter()
                .map(|stream| match stream.want {
                    Want::Elastic(bytes) | Want::Promised(bytes) => bytes,
                })
                .collect();
            let as_float: Vec<f64> = capacity.iter().map(|&c| f64::from(c)).collect();
            let given = window(&as_float, &streams, &wanted);
            let mut fixed: Vec<u32> = Vec::new();
            for (index, &wanted) in wanted.iter().enumerate() {
                let before: u32 = fixed.iter().sum();
                let with = [fixed.as_slice(), &[wanted as u32]].concat();
                let flow = max_flow(&capacity, &streams[..=index], &with);
                fixed.push(flow - before);
            }
            let found: Vec<u32> = given.iter().map(|&bytes| bytes as u32).collect();
            assert_eq!(found, fixed, "{capacity:?} {streams:?}");
        }
    }
}
