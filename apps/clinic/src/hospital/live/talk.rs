//! Speech at the hospital: one viewer speaks at a time.

use anabranch::base::text::printable;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    Live,
    state::{Speaker, Speech as State},
};
use crate::{speech::is_speech, wire::Speech};

/// Time after the last packet of a speaker, after which another one may speak, in microseconds.
const SILENCE_US: u64 = 2_000_000;
/// Longest name of a speaker, in characters.
const NAME_CHARS: usize = 40;
/// Oldest packet that is sent, in microseconds: what is older is of no use.
const AGE_MAX_US: u64 = 400_000;
/// Packets that are taken at a time: those of a second.
const PACKETS_MAX: usize = 50;

/// Packets that a viewer wants to be heard.
#[derive(Clone, Debug)]
pub struct Utterance {
    /// Number of the case.
    pub case: u32,
    /// A number by which the viewer is known, chosen at random.
    pub speaker: u64,
    /// Its name, for people.
    pub name: String,
    /// Packets of Opus of 20 ms in order, each with its age in microseconds.
    pub packets: Vec<(u64, Bytes)>,
    /// Nothing follows.
    pub is_over: bool,
}

/// A viewer may not speak.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No ambulance listens.
    #[error("no ambulance listens; it needs --audio-out")]
    NobodyListens,
    /// Another one speaks.
    #[error("{0} speaks; wait for the end")]
    Taken(String),
    /// The packets are none of speech, or too many.
    #[error("these are no packets of Opus of 20 ms, or more than 50")]
    NoSpeech,
}

/// Speaker and stream of a case.
#[derive(Debug, Default)]
pub(super) struct Talk {
    speaker: Option<(u64, Speaker)>,
    /// Time of the last packet of the speaker.
    spoken_us: u64,
    /// Number of the next packet.
    number: u64,
    stream: Option<mpsc::Sender<Speech>>,
}

impl Talk {
    /// The stream on which an ambulance listens.
    pub(super) fn listens(&mut self, stream: mpsc::Sender<Speech>) {
        self.stream = Some(stream);
    }

    /// Adds what is known at this time to a state.
    pub(super) fn describe(&self, now_us: u64, state: &mut State) {
        let stream = self.stream.as_ref();
        state.is_heard = stream.is_some_and(|stream| !stream.is_closed());
        state.speaker = self.speaker(now_us).map(|(_, speaker)| speaker.clone());
        state.spoken = self.number;
    }

    fn speaker(&self, now_us: u64) -> Option<&(u64, Speaker)> {
        let is_silent = now_us.saturating_sub(self.spoken_us) > SILENCE_US;
        self.speaker.as_ref().filter(|_| !is_silent)
    }

    fn speak(&mut self, now_us: u64, of: Utterance) -> Result<u64, Refusal> {
        let is_all = of.packets.iter().all(|(_, packet)| is_speech(packet));
        if !is_all || of.packets.len() > PACKETS_MAX {
            return Err(Refusal::NoSpeech);
        }
        match self.speaker(now_us) {
            Some((id, other)) if *id != of.speaker => {
                return Err(Refusal::Taken(other.name.clone()));
            }
            Some(_) => {}
            None => {
                let name = printable(of.name.trim(), NAME_CHARS);
                let name = if name.is_empty() {
                    "someone".to_owned()
                } else {
                    name
                };
                let since_us = now_us;
                self.speaker = Some((of.speaker, Speaker { name, since_us }));
            }
        }
        self.spoken_us = now_us;
        if of.is_over {
            self.speaker = None;
        }
        let stream = self.stream.as_ref().filter(|stream| !stream.is_closed());
        let Some(stream) = stream else {
            self.speaker = None;
            return Err(Refusal::NobodyListens);
        };
        let mut lost = 0;
        for (age_us, bytes) in of.packets {
            let packet = Speech {
                captured_us: now_us.saturating_sub(age_us),
                number: self.number,
                bytes,
            };
            self.number += 1;
            if age_us > AGE_MAX_US || stream.try_send(packet).is_err() {
                lost += 1;
            }
        }
        Ok(lost)
    }
}

impl Live {
    /// Sends what a viewer says; returns how many packets were too old, or too many for the stream.
    ///
    /// # Errors
    /// No ambulance of this case listens, another viewer speaks, or the packets are none of speech.
    pub fn speak(&self, of: Utterance) -> Result<u64, Refusal> {
        let mut inner = self.lock();
        if of.case == 0 || inner.state.case != of.case {
            return Err(Refusal::NobodyListens);
        }
        inner.talk.speak(self.now_us(), of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utterance(speaker: u64, name: &str, packets: usize) -> Utterance {
        Utterance {
            case: 1,
            speaker,
            name: name.to_owned(),
            packets: vec![(1_000, Bytes::from_static(&[8, 1])); packets],
            is_over: false,
        }
    }

    #[test]
    fn one_speaks_at_a_time() {
        let mut talk = Talk::default();
        let nobody = talk.speak(0, utterance(1, "A", 1));
        assert_eq!(nobody, Err(Refusal::NobodyListens));
        let (sender, mut stream) = mpsc::channel(4);
        talk.listens(sender);
        assert_eq!(talk.speak(5_000, utterance(1, " Dr. A\n", 2)), Ok(0));
        let taken = talk.speak(6_000, utterance(2, "B", 1));
        assert_eq!(taken, Err(Refusal::Taken("Dr. A".to_owned())));
        let packet = stream.try_recv().unwrap();
        assert_eq!((packet.number, packet.captured_us), (0, 4_000));
        // One that says nothing for a while has ended, and so has one that says so.
        let later = 5_001 + SILENCE_US;
        assert_eq!(talk.speak(later, utterance(2, "", 1)), Ok(0));
        let mut state = State::default();
        talk.describe(later, &mut state);
        assert_eq!(state.speaker.unwrap().name, "someone");
        let over = Utterance {
            is_over: true,
            ..utterance(2, "", 0)
        };
        assert_eq!(talk.speak(later, over), Ok(0));
        assert_eq!(
            talk.speak(later, utterance(1, "A", 5)),
            Ok(3),
            "two wait already"
        );
        drop(stream);
        assert_eq!(
            talk.speak(later, utterance(1, "A", 1)),
            Err(Refusal::NobodyListens)
        );
    }

    #[test]
    fn what_is_no_speech_is_refused_and_what_is_old_is_lost() {
        let mut talk = Talk::default();
        let (sender, mut stream) = mpsc::channel(4);
        talk.listens(sender);
        for wrong in [
            utterance(1, "", PACKETS_MAX + 1),
            Utterance {
                packets: vec![(0, Bytes::from_static(&[0]))],
                ..utterance(1, "", 0)
            },
        ] {
            assert_eq!(talk.speak(0, wrong), Err(Refusal::NoSpeech));
        }
        let old = Utterance {
            packets: vec![(AGE_MAX_US + 1, Bytes::from_static(&[8]))],
            ..utterance(1, "", 0)
        };
        assert_eq!(talk.speak(0, old), Ok(1));
        assert!(stream.try_recv().is_err());
    }
}
