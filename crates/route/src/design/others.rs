//! Simple designs for comparison.

use anabranch_base::Random;

use super::{Plan, Task, collect};

/// Equally many probes on every link and of every size, as far as they fit; the rest from the first on.
pub fn equal(tasks: &[Task], budget_bytes: u64) -> Plan {
    collect(tasks, &equal_counts(tasks, budget_bytes), f64::NAN)
}

/// Counts by task and size.
pub(super) fn equal_counts(tasks: &[Task], budget_bytes: u64) -> Vec<Vec<u64>> {
    let cost = |task: &Task, bytes: u64| (bytes + task.overhead_bytes).max(1);
    let round = tasks
        .iter()
        .flat_map(|task| task.sizes.iter().map(|&bytes| cost(task, bytes)));
    let rounds = budget_bytes / round.sum::<u64>().max(1);
    let mut counts: Vec<Vec<u64>> = tasks
        .iter()
        .map(|task| vec![rounds; task.sizes.len()])
        .collect();
    let mut left = budget_bytes - spent(tasks, &counts);
    // Sizes in turn, so that no link gets two probes more than another.
    let sizes = tasks.iter().map(|task| task.sizes.len()).max().unwrap_or(0);
    for size in 0..sizes {
        for (task, counts) in tasks.iter().zip(&mut counts) {
            if let Some(&bytes) = task.sizes.get(size)
                && cost(task, bytes) <= left
            {
                counts[size] += 1;
                left -= cost(task, bytes);
            }
        }
    }
    counts
}

/// Random links and sizes, until one no longer fits.
pub fn random(tasks: &[Task], budget_bytes: u64, random: &mut Random) -> Plan {
    let mut counts: Vec<Vec<u64>> = tasks.iter().map(|task| vec![0; task.sizes.len()]).collect();
    let mut left = budget_bytes;
    let probed: Vec<usize> = (0..tasks.len())
        .filter(|&at| !tasks[at].sizes.is_empty())
        .collect();
    while !probed.is_empty() {
        let at = probed[random.below(probed.len() as u64) as usize];
        let size = random.below(tasks[at].sizes.len() as u64) as usize;
        let cost = (tasks[at].sizes[size] + tasks[at].overhead_bytes).max(1);
        if cost > left {
            break;
        }
        left -= cost;
        counts[at][size] += 1;
    }
    collect(tasks, &counts, f64::NAN)
}

fn spent(tasks: &[Task], counts: &[Vec<u64>]) -> u64 {
    let of_task = |(task, counts): (&Task, &Vec<u64>)| -> u64 {
        let pairs = task.sizes.iter().zip(counts);
        pairs
            .map(|(&bytes, &count)| (bytes + task.overhead_bytes).max(1) * count)
            .sum()
    };
    tasks.iter().zip(counts).map(of_task).sum()
}
