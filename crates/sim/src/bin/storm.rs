//! Runs many storms: `storm [--seeds N] [--from N] [--seed N [--log]]`.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
};

use anabranch_sim::storm;

struct Arguments {
    from: u64,
    seeds: u64,
    log: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        from: 0,
        seeds: 200,
        log: false,
    };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| format!("{argument} needs a whole number"))
        };
        match argument.as_str() {
            "--seeds" => parsed.seeds = number()?,
            "--from" => parsed.from = number()?,
            "--seed" => {
                parsed.from = number()?;
                parsed.seeds = 1;
            }
            "--log" => parsed.log = true,
            other => {
                return Err(format!(
                    "unknown argument '{other}'; usage: storm [--seeds N] [--from N] [--seed N [--log]]"
                ));
            }
        }
    }
    Ok(parsed)
}

#[allow(clippy::disallowed_methods, clippy::print_stdout)] // A program, not part of the engine.
fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(2);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from + arguments.seeds;
    let (failed, packets) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(arguments.seeds) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let report = storm::run(seed, arguments.log);
                    packets.fetch_add(report.packets, Ordering::Relaxed);
                    if let Some(log) = &report.log {
                        println!("{log}");
                    }
                    if !report.broken.is_empty() {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("seed {seed}: {}", report.broken.join("; "));
                        if arguments.seeds == 1 {
                            println!("{}\nended at {:?}", report.plan, report.virtual_time);
                        }
                    }
                    let done = seed - arguments.from + 1;
                    if done.is_multiple_of(100) {
                        eprintln!("{done} of {} storms", arguments.seeds);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!(
        "{} storms, {} packets: {} passed, {failed} failed",
        arguments.seeds,
        packets.into_inner(),
        arguments.seeds - failed
    );
    ExitCode::from(u8::from(failed > 0))
}
