use anabranch_clinic::{
    ambulance::y4m::{self, Y4mError},
    annexb::{AccessUnit, AnnexBError, Reader},
    speech::{Pages, Reader as Ogg, Source, Timeline, is_speech},
    wfdb::{Format, Header, Holes, INVALID, LEADS_MAX, Packer, Unpacker},
    wire::{Data, Notice, Purpose, Request, decode, encode},
};
use bytes::Bytes;

/// Messages and data between ambulance and hospital are read as they are written.
pub fn clinic_messages(data: &[u8]) {
    let adu = Bytes::copy_from_slice(data);
    if let Ok(read) = Data::read(adu.clone()) {
        assert_eq!(read.to_adu(), adu);
    }
    let json: Bytes = [&[0], data].concat().into();
    // Of a number with a fraction, the last digit may change.
    if let Ok(request) = decode::<Request>(&json)
        && !matches!(request, Request::Vital { .. })
    {
        assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
    }
    if let Ok(notice) = decode::<Notice>(&json) {
        assert_eq!(decode::<Notice>(&encode(&notice)), Ok(notice));
    }
    let text = String::from_utf8_lossy(data);
    if let Some(purpose) = Purpose::of_label(&text) {
        assert_eq!(purpose.label(), text);
    }
}

/// Headers of records are read as they are written, or refused, and name no file elsewhere; samples are written as they were read.
pub fn wfdb(data: &[u8]) {
    if let Ok(header) = Header::read(data) {
        assert!((1..=LEADS_MAX).contains(&header.leads.len()));
        for lead in &header.leads {
            assert!(!lead.file.contains(['/', '\\']) && !lead.file.starts_with('.'));
            let _ = lead.physical(INVALID);
        }
        let again = Header::read(header.to_text().as_bytes()).expect("it was written here");
        assert_eq!(again.leads.len(), header.leads.len());
        assert_eq!(again.frames, header.frames);
        let holes = Holes::of_comments(&header.comments);
        let before = holes.list().iter().map(|hole| hole.frames).sum::<u64>();
        assert_eq!(holes.frames(), before);
        for pair in holes.list().windows(2) {
            assert!(pair[0].first + pair[0].frames < pair[1].first);
        }
    }
    for format in [Format::F16, Format::F212] {
        let (mut samples, mut unpacker) = (Vec::new(), Unpacker::new(format));
        for part in data.chunks(5) {
            unpacker.push(part, &mut samples);
        }
        unpacker.finish(&mut samples);
        assert_eq!(samples.len() as u64, format.samples_in(data.len() as u64));
        let (mut packer, mut bytes) = (Packer::new(format), Vec::new());
        packer.push(&samples, &mut bytes);
        packer.finish(&mut bytes);
        let (mut again, mut unpacker) = (Vec::new(), Unpacker::new(format));
        unpacker.push(&bytes, &mut again);
        unpacker.finish(&mut again);
        assert_eq!(again, samples);
    }
}

/// Access units are the same however their bytes are divided, and are read again as they are sent.
pub fn annexb(data: &[u8]) {
    let at_once = units(data, data.len().max(1));
    assert_eq!(at_once, units(data, 3));
    let Ok(sent) = at_once else { return };
    let joined: Vec<u8> = sent.iter().flat_map(|unit| unit.bytes.clone()).collect();
    if joined.is_empty() {
        return;
    }
    let again = units(&joined, 7).expect("it was sent");
    assert!(
        again
            .iter()
            .map(|unit| &unit.bytes)
            .eq(sent.iter().map(|unit| &unit.bytes))
    );
}

/// Raw pictures are the same however their bytes are divided, and with their head are the bytes that were read.
pub fn y4m(data: &[u8]) {
    let at_once = pictures(data, data.len().max(1));
    assert_eq!(at_once, pictures(data, 3));
    if let Ok(joined) = at_once {
        assert!(data.starts_with(&joined));
    }
}

/// The head and the pictures, one after the other.
fn pictures(data: &[u8], piece: usize) -> Result<Vec<u8>, Y4mError> {
    let (mut reader, mut pictures) = (y4m::Reader::default(), Vec::new());
    for part in data.chunks(piece) {
        pictures.extend(reader.push(part)?);
    }
    let head = reader.head().unwrap_or_default().to_vec();
    Ok([head, pictures.concat()].concat())
}

fn units(data: &[u8], piece: usize) -> Result<Vec<AccessUnit>, AnnexBError> {
    let (mut reader, mut units) = (Reader::default(), Vec::new());
    for part in data.chunks(piece) {
        units.extend(reader.push(part)?);
    }
    units.extend(reader.finish()?);
    Ok(units)
}

/// Packets of Ogg are the same however their bytes are divided; packets of speech are those of 20 ms, and are read as they are written, with
/// gaps between them.
pub fn speech(data: &[u8]) {
    let mut pages = data.to_vec();
    mend(&mut pages);
    let at_once = Ogg::default().push(&pages);
    let (mut reader, mut divided) = (Ogg::default(), Ok(Vec::new()));
    for piece in pages.chunks(7) {
        match (reader.push(piece), &mut divided) {
            (Ok(more), Ok(packets)) => packets.extend(more),
            (Err(error), _) => {
                divided = Err(error);
                break;
            }
            (_, Err(_)) => break,
        }
    }
    assert_eq!(at_once, divided);
    let mut source = Source::default();
    let Ok(packets) = source.push(&pages) else {
        return;
    };
    let (mut stream, mut timeline, mut written) = (Pages::new(1), Timeline::default(), Vec::new());
    let mut captured_us = 0;
    for (number, packet) in (0..).zip(&packets) {
        assert!(is_speech(packet));
        captured_us += 20_000 * u64::from(packet[0] % 32);
        let place = timeline.place(number, captured_us);
        written.extend(stream.put(place.expect("it follows"), packet));
    }
    let mut again = Source::default();
    let again = again.push(&written).expect("it was written here");
    assert_eq!(again.len() as u64, stream.next());
    let kept = again.iter().filter(|packet| packet.len() > 1);
    let sent = packets.iter().filter(|packet| packet.len() > 1);
    assert!(kept.eq(sent));
}

/// Sets the checksums of pages of Ogg, which no random bytes have.
fn mend(bytes: &mut [u8]) {
    let mut rest = bytes;
    while rest.len() >= 27 && rest.starts_with(b"OggS") {
        let head = 27 + usize::from(rest[26]);
        let lengths = rest.get(27..head).unwrap_or_default();
        let whole = head
            + lengths
                .iter()
                .map(|length| usize::from(*length))
                .sum::<usize>();
        let Some((page, after)) = rest.split_at_mut_checked(whole) else {
            return;
        };
        page[22..26].fill(0);
        let sum = page.iter().fold(0_u32, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        page[22..26].copy_from_slice(&sum.to_le_bytes());
        rest = after;
    }
}
