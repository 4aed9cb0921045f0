//! Work and bytes of a pipeline, measured on messages of the source.

use std::{fmt, path::Path, time::Duration};

use anabranch_processing::{
    process::{Adu, Limits, Modules, Pipeline, place::Flow},
    wire::Carried,
};
use tokio::{fs::File, time::Instant};

use crate::{
    exit::Failure,
    process::fields_of,
    stream::{Framing, Reader},
};

/// Most messages that are read.
const MESSAGES_MAX: usize = 1_000;

/// A pipeline on the messages of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    messages: u64,
    /// Messages that the pipeline could not process.
    failures: u64,
    /// Bytes of these, and of what was derived, as they travel.
    bytes: u64,
    derived: u64,
    /// Units of work, and the time that they took.
    work: u64,
    busy: Duration,
}

impl Sample {
    /// Reads a file, and runs the pipeline on what is in it.
    pub(super) async fn read(
        path: &Path,
        framing: Framing,
        (pipeline, modules): (&Pipeline, &Modules),
    ) -> Result<Self, Failure> {
        let unread = |error: &dyn fmt::Display| {
            Failure::file(format!("cannot read {}: {error}", path.display()))
        };
        let file = File::open(path).await.map_err(|error| unread(&error))?;
        let mut reader = Reader::new(file, framing);
        let running = pipeline.start(modules, Limits::default());
        let mut running = running.map_err(Failure::usage)?;
        let mut sample = Self::default();
        while sample.messages < MESSAGES_MAX as u64 {
            let next = reader.next().await.map_err(|error| unread(&error))?;
            let Some(message) = next else { break };
            let mut adu = Adu::new(sample.messages, message.data.clone());
            adu.fields = fields_of(&message)?;
            sample.messages += 1;
            sample.bytes += travelling(&adu);
            let begun = Instant::now();
            let processed = running.process(adu, modules);
            sample.busy += begun.elapsed();
            match processed {
                Ok(processed) => {
                    sample.work += processed.work;
                    sample.derived += processed.adus.iter().map(travelling).sum::<u64>();
                }
                Err(_) => sample.failures += 1,
            }
        }
        if sample.messages == sample.failures {
            let words = "no message of the sample can be processed";
            return Err(Failure::usage(format!("{}: {words}", path.display())));
        }
        Ok(sample)
    }

    /// Messages of so many bytes, from which so many are derived with so much work, at 1 ns for a unit.
    #[cfg(test)]
    pub(super) fn of(bytes: u64, derived: u64, work: u64) -> Self {
        Self {
            messages: 1,
            failures: 0,
            bytes,
            derived,
            work,
            busy: Duration::from_nanos(work),
        }
    }

    fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.messages.max(1) as f64
    }

    /// The stream, if so many messages are made in a second.
    pub(super) fn flow(&self, per_second: f64) -> Flow {
        Flow {
            period: Duration::from_secs_f64(1.0 / per_second),
            bytes: self.each(self.bytes),
            units: self.each(self.work),
        }
    }

    /// Mean bytes that are derived from a message.
    pub(super) fn derived(&self) -> f64 {
        self.each(self.derived)
    }

    /// Mean time of a unit of work here, in picoseconds.
    pub(super) fn unit_ps(&self) -> f64 {
        self.busy.as_secs_f64() * 1e12 / self.work.max(1) as f64
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = self.busy.as_secs_f64() * 1e3 / self.messages.max(1) as f64;
        let bytes = [self.each(self.bytes), self.derived()].map(f64::round);
        write!(
            f,
            "{} messages of {} bytes: {} bytes are derived from each, in {work:.3} ms here",
            self.messages, bytes[0], bytes[1]
        )?;
        match self.failures {
            0 => Ok(()),
            count => write!(f, "; {count} cannot be processed"),
        }
    }
}

/// Bytes of an ADU as it travels.
fn travelling(adu: &Adu) -> u64 {
    let carried = Carried {
        adu: adu.clone(),
        change: 0,
        is_last: true,
    };
    carried.to_bytes().len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_and_bytes_are_those_of_the_sample() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        let lines = "{\"data\": \"0123456789\", \"fields\": {\"layer\": 1}}\n".repeat(10);
        std::fs::write(&path, lines).unwrap();
        let none = Modules::default();
        let pipeline: Pipeline = "every 2".parse().unwrap();
        let sample = Sample::read(&path, Framing::Json, (&pipeline, &none))
            .await
            .unwrap();
        assert_eq!((sample.messages, sample.failures), (10, 0));
        assert!((sample.derived() / sample.flow(10.0).bytes - 0.5).abs() < 1e-9);
        // Header, a field and its name, body.
        assert_eq!(sample.flow(10.0).bytes, f64::from(15 + 2 + 5 + 1 + 8 + 10));
        assert_eq!(sample.flow(10.0).period, Duration::from_millis(100));
        assert!(sample.flow(10.0).units > 0.0 && sample.unit_ps() > 0.0);
        // Ten bytes are no whole number of doubles.
        let pipeline: Pipeline = "precision 3 of f64".parse().unwrap();
        let refused = Sample::read(&path, Framing::Json, (&pipeline, &none)).await;
        assert!(refused.unwrap_err().message().contains("can be processed"));
        let missing = Sample::read(
            &folder.path().join("none"),
            Framing::Lines,
            (&pipeline, &none),
        )
        .await;
        assert!(missing.unwrap_err().message().contains("cannot read"));
    }
}
