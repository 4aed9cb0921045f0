use anabranch_clinic::{
    annexb::{AccessUnit, AnnexBError, Reader},
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

fn units(data: &[u8], piece: usize) -> Result<Vec<AccessUnit>, AnnexBError> {
    let (mut reader, mut units) = (Reader::default(), Vec::new());
    for part in data.chunks(piece) {
        units.extend(reader.push(part)?);
    }
    units.extend(reader.finish()?);
    Ok(units)
}
