use anabranch_visualise::{
    imd::{Commands, Event, Sections, SessionInfo, Simulation},
    wire::{Label, Notice, Request, Sent, decode, encode},
};
use bytes::Bytes;

/// Bytes of a simulation are whole frames with the sections that were announced, or are refused, however they are divided, and frames are
/// sent as they were received; commands of clients and messages between source and viewer are read as they are written.
pub fn imd(data: &[u8]) {
    let at_once = frames(data, data.len().max(1));
    assert_eq!(at_once, frames(data, 7));
    let mut commands = Commands::new();
    commands.buffer().extend_from_slice(data);
    while let Ok(Some(_)) = commands.next_command() {}
    let adu = Bytes::copy_from_slice(data);
    if let Ok(Sent::Part(part)) = Sent::read(&adu) {
        assert_eq!(part.to_adu(), adu);
    }
    let json: Bytes = [&[0], data].concat().into();
    if let Ok(request) = decode::<Request>(&json) {
        assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
    }
    if let Ok(notice) = decode::<Notice>(&json) {
        assert_eq!(decode::<Notice>(&encode(&notice)), Ok(notice));
    }
    let text = String::from_utf8_lossy(data);
    if let Ok(label) = text.parse::<Label>() {
        assert_eq!(label.to_string().parse(), Ok(label));
    }
    if let Ok(sections) = text.parse::<Sections>() {
        assert_eq!(sections.to_string().parse(), Ok(sections));
    }
}

/// Frames of a simulation that sends the bytes in pieces, until they are over or wrong.
fn frames(data: &[u8], piece: usize) -> Vec<Bytes> {
    let mut simulation = Simulation::new();
    let mut announced: Option<SessionInfo> = None;
    let mut frames = Vec::new();
    for part in data.chunks(piece) {
        simulation.buffer().extend_from_slice(part);
        loop {
            match simulation.next_event() {
                Ok(Some(Event::Begun(info))) => {
                    assert_eq!(SessionInfo::read(&info.to_bytes()), Ok(Some(info)));
                    announced = Some(info);
                }
                Ok(Some(Event::Frame(frame))) => {
                    let info = announced.expect("a session begins with its info");
                    assert_eq!(frame.sections(), info.sections);
                    let packets = frame.packets(info.sections);
                    assert!(packets.len() <= data.len());
                    frames.push(packets);
                }
                Ok(None) => break,
                Ok(Some(Event::Ended)) | Err(_) => return frames,
            }
        }
    }
    frames
}
