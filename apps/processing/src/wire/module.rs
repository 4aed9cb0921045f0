//! WebAssembly module as an ADU: its kind, and its bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{MODULE, WireError};

/// The ADU of a module.
pub fn to_adu(module: &[u8]) -> Bytes {
    let mut adu = BytesMut::with_capacity(1 + module.len());
    adu.put_u8(MODULE);
    adu.put_slice(module);
    adu.freeze()
}

/// The module of an ADU.
///
/// # Errors
/// It is another kind.
pub fn read(mut adu: Bytes) -> Result<Bytes, WireError> {
    match adu.try_get_u8() {
        Ok(MODULE) => Ok(adu),
        kind => Err(WireError(format!("kind {:?} for a module", kind.ok()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_read_as_it_is_written() {
        assert_eq!(read(to_adu(b"\0asm")), Ok(Bytes::from_static(b"\0asm")));
        assert!(read(Bytes::new()).is_err());
        assert!(read(Bytes::from_static(b"\0asm")).is_err());
    }
}
