//! Writer of boxes.

/// Buffer of boxes whose sizes are filled in when they end.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// Writes a box around the output of `body`.
    pub(super) fn boxed(&mut self, kind: &[u8; 4], body: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.u32(0);
        self.0.extend_from_slice(kind);
        body(self);
        let size = (self.0.len() - start) as u32;
        self.0[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }

    /// Writes a box with version and flags.
    pub(super) fn full(
        &mut self,
        kind: &[u8; 4],
        version: u8,
        flags: u32,
        body: impl FnOnce(&mut Self),
    ) {
        self.boxed(kind, |w| {
            w.u32(u32::from(version) << 24 | flags);
            body(w);
        });
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn zeros(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, 0);
    }
}
