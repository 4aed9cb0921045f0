//! `precision`: numbers rounded to fewer bits of their significand, so that what follows compresses better.
//!
//! The nearest number with `bits` bits of significand takes the place of each, of two equally near ones the even one. For a
//! normal number x, and for what results from it, |x' − x| ≤ 2^−(bits + 1) · |x|. A number below the smallest normal one, m,
//! keeps its bits at the same places: |x' − x| ≤ 2^−(bits + 1) · m. Where rounding up would give infinity, the lower number
//! is taken: |x' − x| < 2^−bits · |x|. Infinities, NaN (with its payload) and the sign of zero are kept.

use bytes::Bytes;

use crate::{
    adu::Adu,
    array::Element,
    operator::{Fault, Operator, Output, WORK_OF_ADU},
};

/// `precision`.
#[derive(Debug)]
pub(crate) struct Precision {
    pub(crate) bits: u32,
    pub(crate) element: Element,
}

impl Operator for Precision {
    fn process(&mut self, mut adu: Adu, output: &mut Output) -> Result<(), Fault> {
        self.element.count(&adu.body)?;
        output.add_work(WORK_OF_ADU + 2 * adu.body.len() as u64);
        let mut body = adu.body.to_vec();
        for number in body.chunks_exact_mut(self.element.bytes()) {
            let bits = self.element.read_bits(number);
            self.element
                .write_bits(rounded(bits, self.bits, self.element), number);
        }
        adu.body = Bytes::from(body);
        output.push(adu)
    }
}

/// Bits of the number rounded to `kept` bits of significand.
pub fn rounded(bits: u64, kept: u32, element: Element) -> u64 {
    let mantissa = element.mantissa_bits();
    let sign_at = element.bytes() as u32 * 8 - 1;
    let infinity = ((1 << (sign_at - mantissa)) - 1) << mantissa;
    let magnitude = bits & ((1 << sign_at) - 1);
    let cut = mantissa.saturating_sub(kept);
    if cut == 0 || magnitude >= infinity {
        return bits;
    }
    // A carry out of the significand raises the exponent, as it should.
    let half = (1 << (cut - 1)) - 1 + (magnitude >> cut & 1);
    let up = (magnitude + half) >> cut << cut;
    let result = if up >= infinity {
        magnitude >> cut << cut
    } else {
        up
    };
    bits & 1 << sign_at | result
}
