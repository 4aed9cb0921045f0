#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| anabranch_fuzz::y4m(data));
