use anabranch_visualise::{
    molecule::{Dcd, read_psf},
    smartpointer::{
        frame::{self, FramePart, Part},
        view::View,
        wire::{Label, Notice, Request, Sent},
    },
    wire::{decode, encode},
};
use bytes::Bytes;

/// Topologies and trajectories are read or refused, and take no more memory than their bytes account for; parts of frames and messages are
/// read as they are written; each bond is in exactly one part, whatever the places and the view are.
pub fn smartpointer(data: &[u8]) {
    if let Ok(topology) = read_psf(&String::from_utf8_lossy(data)) {
        // A line of an atom, and of a bond, has more bytes than its entry.
        assert!(topology.elements.len() <= data.len());
        assert!(2 * topology.bonds.len() <= data.len());
        let atoms = topology.atoms();
        assert!(topology.bonds.iter().flatten().all(|atom| *atom < atoms));
    }
    if let Ok(dcd) = Dcd::read(data) {
        assert!(dcd.frames_in(data.len() as u64) <= data.len() as u64);
        let rest = &data[dcd.frame_at(0) as usize..];
        let whole = &rest[..rest.len().min(dcd.frame_bytes())];
        if let Ok(positions) = dcd.frame(whole) {
            assert_eq!(positions.len(), dcd.atoms as usize);
        }
    }
    divided(data);
    let adu = Bytes::copy_from_slice(data);
    match Sent::read(&adu) {
        Ok(Sent::Frame(part)) => assert_eq!(part.to_adu(), adu),
        Ok(Sent::Elements(elements)) => assert_eq!(elements, adu[1..]),
        Ok(Sent::Notice(_)) | Err(_) => {}
    }
    let json: Bytes = [&[0], data].concat().into();
    if let Ok(request) = decode::<Request>(&json) {
        // The last digit of a plane may differ: serde_json reads floats quickly, not exactly.
        assert!(decode::<Request>(&encode(&request)).is_ok());
    }
    if let Ok(notice) = decode::<Notice>(&json) {
        assert_eq!(decode::<Notice>(&encode(&notice)), Ok(notice));
    }
    if let Ok(label) = String::from_utf8_lossy(data).parse::<Label>() {
        assert_eq!(label.to_string().parse(), Ok(label));
    }
}

/// The bytes as a view of one half-space, and as positions that are bonded in a row.
fn divided(data: &[u8]) {
    let Some((plane, rest)) = data.split_first_chunk::<16>() else {
        return;
    };
    let float = |at: usize, bytes: &[u8]| {
        f32::from_le_bytes(*bytes[4 * at..].first_chunk().expect("four bytes"))
    };
    let plane = [0, 1, 2, 3].map(|at| f64::from(float(at, plane)));
    let Ok(view) = View::new(vec![plane]) else {
        return;
    };
    let positions: Vec<[f32; 3]> = rest
        .chunks_exact(12)
        .map(|at| [0, 1, 2].map(|axis| float(axis, at)))
        .collect();
    let pairs: Vec<[u32; 2]> = (1..positions.len() as u32)
        .map(|atom| [atom - 1, atom])
        .collect();
    let parts = frame::bonds(&pairs, &positions, &view);
    let mut all: Vec<u32> = parts
        .iter()
        .flat_map(|body| frame::bond_numbers(body))
        .collect();
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..pairs.len() as u32));
    for (part, body) in [Part::Bond1, Part::Bond2].into_iter().zip(parts) {
        let (frame, view) = (1, 2);
        let sent = FramePart {
            part,
            frame,
            view,
            body,
        };
        assert_eq!(FramePart::read(sent.to_adu()), Ok(sent));
    }
}
