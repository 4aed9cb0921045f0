//! Example of an operator as a WebAssembly module: the mean of each group of numbers, for a view of lower resolution.
//!
//! The body is an array of little-endian f32; the parameters are the size of a group, in digits (`spec/processing.md` §4):
//!
//! ```text
//! rustup target add wasm32-unknown-unknown
//! rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=s -C panic=abort -C strip=symbols mean.rs
//! b3sum mean.wasm
//! ```
//!
//! In a pipeline: `wasm HASH "4"`.

#![no_std]

#[cfg_attr(target_arch = "wasm32", link(wasm_import_module = "anabranch1"))]
unsafe extern "C" {
    safe fn length() -> u32;
    fn read(to: *mut u8, from: u32, length: u32) -> u32;
    fn parameters_read(to: *mut u8, from: u32, length: u32) -> u32;
    fn set_number(name: *const u8, name_length: u32, value: f64);
    fn emit(from: *const u8, length: u32);
    fn fail(text: *const u8, length: u32);
}

/// Numbers of the largest array.
const NUMBERS_MAX: usize = 1 << 20;

/// Array of the ADU, and what is computed from it in the same place.
static mut NUMBERS: [f32; NUMBERS_MAX] = [0.0; NUMBERS_MAX];

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Ends the processing of the ADU with a reason.
fn refuse(reason: &str) -> i32 {
    // SAFETY: the text is in memory for as long as the call takes.
    unsafe { fail(reason.as_ptr(), reason.len() as u32) };
    1
}

/// Size of a group; `None` if the parameters are no number from 1.
fn group() -> Option<usize> {
    let mut digits = [0; 8];
    // SAFETY: at most as many bytes are written as there are.
    let count = unsafe { parameters_read(digits.as_mut_ptr(), 0, digits.len() as u32) };
    let digits = core::str::from_utf8(digits.get(..count as usize)?).ok()?;
    digits.parse().ok().filter(|&size| size > 0)
}

/// Processes one ADU; 0 if it could.
#[unsafe(no_mangle)]
pub extern "C" fn process() -> i32 {
    let Some(size) = group() else {
        return refuse("the parameters must be the size of a group, such as \"4\"");
    };
    let bytes = length() as usize;
    if bytes % 4 != 0 || bytes / 4 > NUMBERS_MAX {
        return refuse("the body must be an array of at most 1048576 f32");
    }
    // SAFETY: a module has one thread, and calls of `process` do not overlap.
    let numbers = unsafe { &mut *(&raw mut NUMBERS) };
    // SAFETY: the array holds that many bytes.
    unsafe { read(numbers.as_mut_ptr().cast(), 0, bytes as u32) };
    let mut groups = 0;
    let mut at = 0;
    while at < bytes / 4 {
        let end = (at + size).min(bytes / 4);
        let sum: f32 = numbers[at..end].iter().sum();
        numbers[groups] = sum / (end - at) as f32;
        groups += 1;
        at = end;
    }
    let name = "group";
    // SAFETY: names and numbers are in memory for as long as the calls take.
    unsafe {
        set_number(name.as_ptr(), name.len() as u32, size as f64);
        emit(numbers.as_ptr().cast(), groups as u32 * 4);
    }
    0
}
