//! Parts of enhanced frames, from a network that sends anything.

use anabranch_twoflow::{Arrivals, Header, arrivals::Arrival, header::HEADER_BYTES};

use crate::Input;

/// The input is a list of parts, each preceded by its length. A head that decodes encodes to the same bytes; whatever numbers
/// arrive, no number counts twice, and arrived and missing parts add up to those expected.
pub fn parts(data: &[u8]) {
    let mut arrivals = Arrivals::new();
    let mut input = Input(data);
    let (mut came, mut seen) = (0, std::collections::BTreeSet::new());
    while !input.is_empty() {
        let length = usize::from(input.byte());
        let bytes = input.take(length);
        let Ok((header, rest)) = Header::decode(bytes) else {
            continue;
        };
        assert_eq!(header.encode(), bytes[..HEADER_BYTES]);
        assert_eq!(rest.len() + HEADER_BYTES, bytes.len());
        if let Arrival::New(number) = arrivals.on_packet(header.sequence) {
            assert_eq!(number as u16, header.sequence);
            assert!(
                seen.insert((arrivals.restarts(), number)),
                "{number} came twice"
            );
            came += 1;
        }
        assert_eq!(arrivals.arrived(), came);
        assert!(arrivals.missing() <= 32_768 * (came + arrivals.repeated()));
    }
}
