//! The properties on pseudo-random bytes, for a stable toolchain without cargo-fuzz. Half of the inputs are noise; the other
//! half is composed of pieces that the decoders know, to get beyond the first byte.
//! `FUZZ_SECONDS` sets the time for each property (default 1). With `FUZZ_SEEDS`, composed inputs are written into that folder
//! instead, as a fuzzer's initial corpus.

use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Noise that is the same on every run (splitmix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Pieces that the decoders know, with noise between them.
fn compose(noise: &mut Noise, pieces: &[&[u8]]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..noise.below(24) {
        if noise.below(4) == 0 {
            let length = 1 + noise.below(6);
            input.extend(noise.bytes(length));
        } else {
            input.extend_from_slice(pieces[noise.below(pieces.len())]);
        }
    }
    input
}

fn write_seeds(folder: &Path, pieces: &[&[u8]]) {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let mut noise = Noise(2);
    for number in 0..256 {
        let input = compose(&mut noise, pieces);
        std::fs::write(folder.join(format!("seed-{number}")), input).expect("it can be written");
    }
}

fn feed(name: &str, pieces: &[&[u8]], property: fn(&[u8])) {
    let seconds = std::env::var("FUZZ_SECONDS").map_or(1, |text| text.parse().expect("seconds"));
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
        return write_seeds(&Path::new(&folder).join(name), pieces);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut noise = Noise(1);
    let mut runs = 0u64;
    while Instant::now() < end {
        let input = if noise.below(2) == 0 {
            let length = noise.below(400);
            noise.bytes(length)
        } else {
            compose(&mut noise, pieces)
        };
        let shown = input.clone();
        let result = std::panic::catch_unwind(move || property(&input));
        assert!(result.is_ok(), "{name}: run {runs} fails on {shown:?}");
        runs += 1;
    }
    println!("{name}: {runs} inputs");
}

/// Frames of `spec/wire.md`: a reliable and an unreliable stream, and the frames that concern them.
const FRAMES: &[&[u8]] = &[
    &[0x03, 0x00, 0x03, 0x00, 0x80, 0x01, 0x00],
    &[0x03, 0x04, 0x06, 0x00, 0x80, 0x01, 0x01, b'x'],
    &[0x4c, 0x00, 0x00, 0x02, b'h', b'i'],
    &[0x4a, 0x00, 0x01, 0x80, 0xff, 0xff, 0xf0, 0x01, b'!'],
    &[0x4e, 0x04, 0x01, 0x05, 0x01, b'?'],
    &[0x04, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x06, 0x00, 0x02],
    &[
        0x07, 0x00, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ],
    &[0x08, 0x01, 0x07],
    &[0x09, 0x00, 0x03, 0x40, 0x20],
    &[0x09, 0x00, 0x00, 0x40, 0x82],
    &[0x09, 0x00, 0x02, 0x81, 0x00, 0x10, 0x00],
    &[0x03, 0x08, 0x08, 0x00, 0x80, 0x01, 0x00],
    &[0x42, 0x08, 0x00, 0x45, 0x00, b'?'],
    &[0x09, 0x08, 0x00, 0x00],
    &[0x07, 0x00, 0x05, 0x41, 0x04],
    &[0x0a, 0x05, 0x10, 0x01, 0x02, 0x03],
];

#[test]
fn wire() {
    let mut pieces = vec![[0x00].as_slice(), &[0x01, 1, 2, 3]];
    pieces.extend_from_slice(FRAMES);
    feed("wire", &pieces, anabranch_fuzz::wire);
}

#[test]
fn container() {
    // Each preceded by its kind and length, as the property reads them.
    let framed: Vec<Vec<u8>> = FRAMES
        .iter()
        .map(|frame| [&[0x00, frame.len() as u8], *frame].concat())
        .collect();
    let pieces: Vec<&[u8]> = framed.iter().map(Vec::as_slice).collect();
    feed("container", &pieces, anabranch_fuzz::container);
}

#[test]
fn packet() {
    let pieces: &[&[u8]] = &[
        &[1],
        &[2],
        &[3],
        &[4, 9, 1, 0x40],
        &[5, 20],
        &[6, 2, 0xc0, 0],
        &[0],
    ];
    feed("packet", pieces, anabranch_fuzz::packet);
}

#[test]
fn local() {
    let pieces: &[&[u8]] = &[
        &[0, 200],
        &[1, 3],
        &[0, 0, 0, 3, 0x03, b'{', b'}'],
        b"\0\0\0\x1c\x10{\"id\":1,\"do\":\"explain\"}",
        b"\0\0\0\x3a\x10{\"id\":2,\"do\":\"adjust\",\"stream\":4,\"cap\":\"4 Mbit/s\" }    ",
        b"\0\0\0\x1f\x12{\"stream\":1,\"event\":\"lost\"}  ",
        b"\0\0\0\x0c\x11{\"id\":300 }",
        &[0, 0, 0, 8, 0x20, 0, 0, 0, 1, 0, 0, 7],
        &[0, 0, 0, 11, 0x20, 0, 0, 0, 1, 3, 9, 0, 2, b'{', b'}', 7],
        &[0, 0, 0, 15, 0x21, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 7],
        &[
            0, 0, 0, 28, 0x21, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
            0, 1, 7, 7,
        ],
        &[0, 0, 0, 9, 0x22, 0, 0, 0, 0, 0, 1, 0, 0],
        &[0, 0, 0, 10, 0x23, 0, 0, 0, 1, 2, 0, 0, 0, 9],
        &[0, 0, 0, 2, 0x80, 0],
    ];
    feed("local", pieces, anabranch_fuzz::local);
}

/// The steps of a handshake on either side, pings with far numbers, and some frames.
#[test]
fn bare_peer() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        &[0x00],
        &[0x01],
        &[0x02, 20],
        &[0x03],
        &[0x0b],
        &[0x8b],
        &[0x64, 70],
        &[0x6c, 70],
        &[0xfc, 70],
        &[0xec, 70],
        &[0x05, 5, 0x02, 0x00, 0x00, 0x00, 0x00],
        &[0x0d, 5, 0x02, 0x00, 0x00, 0x00, 0x00],
        &[0x15, 1, 0x1e],
        &[0x15, 7, 0x1c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    feed("bare_peer", pieces, anabranch_fuzz::bare_peer);
}

#[test]
fn link() {
    let pieces: &[&[u8]] = &[
        b"rate=",
        b"50 Mbit/s",
        b"20 Mbit/s +- 50 % every 500 ms",
        b"unlimited",
        b",",
        b" ; ",
        b"delay=",
        b"30 ms",
        b"jitter=normal 2 ms reordering",
        b"loss=1 % in bursts of 4",
        b"queue=",
        b"250 kB",
        b"outage=5 s to 7 s",
        b"lte-up",
        b"wifi",
        b"ecn=60 kB",
        b"mtu=1400 B",
        b"loss=gilbert 0.01/0.3/0/0.8",
        b"rate=trace x",
        b"1e308",
        b"-1",
        b" ",
    ];
    feed("link", pieces, anabranch_fuzz::link);
}

#[test]
fn trace() {
    let pieces: &[&[u8]] = &[
        b"t_s,bandwidth_bps\n",
        b"t_s,bandwidth_bps,rtt_ms,loss\n",
        b"0,",
        b"1.5,",
        b"2,",
        b"1000000",
        b",,",
        b"0.01",
        b"\n",
        b"# note\n",
        b"1e300",
        b"12\n",
        b"13\n",
        b"18446744073709551615\n",
    ];
    feed("trace", pieces, anabranch_fuzz::trace);
}

#[test]
fn transcript() {
    let pieces: &[&[u8]] = &[
        b"\x01\x80\x01\x01\x01",
        b"\x02\x07default\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x03\x02\x04\x80\x01\x06video",
        b"\x04\x02\x04\x00\x90\x4e",
        b"\x09\x02\x13\x01\x07",
        b"\x09\x02\x00\xff\x03",
        b"\x0a\x00\x01",
        b"\x0c\x07\x01\xb0\x09\x01\x04\x00\x00\xa0\x12",
        b"\x0d\x01\x00\x00\x00\x01\xb0\x09",
        b"\x0f",
        b"\xff\x03",
    ];
    feed("transcript", pieces, anabranch_fuzz::transcript);
}

#[test]
fn ticket() {
    let pieces: &[&[u8]] = &[
        b"anabranch1:",
        &[b'a'; 52],
        b":aaaaaaaaaaaaaaaaaaaaaaaaaa:",
        b"192.0.2.7:4433",
        b"[2001:db8::7]:4433",
        b"[fe80::1%3]:1",
        b",",
        b":",
    ];
    feed("ticket", pieces, anabranch_fuzz::ticket);
}

#[test]
fn codes() {
    let card = br#"{"purpose":"send","name":"ada","addresses":["192.0.2.1:4433"],"offer":{"name":"film","bytes":9,"more":0}}"#;
    let pieces: &[&[u8]] = &[
        b"\x01\x01",
        b"\x02",
        b"\x03",
        b"\x04",
        b"\x05\x01",
        b"\x06",
        &[7; 32],
        &[4, 192, 0, 2, 1, 17, 81],
        card,
        b"river-lamp-orbit",
        b"river lamp",
        b" orbitt",
    ];
    feed("codes", pieces, anabranch_fuzz::codes);
}

#[test]
fn exports() {
    let pieces: &[&[u8]] = &[
        &[0, 0, 0, 0, 9, 5],
        &[1, 0, 0, 0, 9, 0, 6],
        &[2, 0, 0, 0, 9, 0, 6],
        &[3, 0, 0, 0, 9, 0, 6],
        b"data/a",
        &[0, 0],
        &[3, 232],
        &[0, 0, 0, 0, 0, 0, 1, 2],
        &[0, 0, 0, 16],
        &[0],
        &[1],
        &[7; 16],
        &[2, 0, 0, 0, 9, 1],
        &[3, b'a', b'b', b'c', 0],
    ];
    feed("exports", pieces, anabranch_fuzz::exports);
}

#[test]
fn imd() {
    let hello = |sections: u8| {
        let mut bytes = vec![0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 7];
        bytes.extend((0..7).map(|bit| sections >> bit & 1));
        bytes
    };
    let (all, positions) = (hello(0x7f), hello(8));
    let pieces: &[&[u8]] = &[
        &all,
        &positions,
        &[0, 0, 0, 12, 0, 0, 0, 1],
        &[0, 0, 0, 1, 0, 0, 0, 1],
        &[0, 0, 0, 13, 0, 0, 0, 1],
        &[0, 0, 0, 2, 0, 0, 0, 1],
        &[0, 0, 0, 14, 0, 0, 0, 1],
        &[0, 0, 0, 15, 0, 0, 0, 1],
        &[0, 0, 0, 6, 0, 0, 0, 2],
        &[7; 24],
        &[7; 12],
        &[1, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1],
        br#"{"do":"watch","sections":9}"#,
        br#"{"is":"begun","session":1,"next":2,"order":"big","sections":63,"is_wrapped":true}"#,
        b"imd/1/watch/adk",
    ];
    feed("imd", pieces, anabranch_fuzz::imd);
}

#[test]
fn smartpointer() {
    let head = |order: fn(i32) -> [u8; 4], atoms: i32| {
        let mut numbers = [0; 20];
        numbers[10] = 1;
        numbers[19] = 24;
        let mut head = order(84).to_vec();
        head.extend(b"CORD");
        head.extend(numbers.into_iter().flat_map(order));
        head.extend([order(84), order(4), order(0), order(4)].concat());
        head.extend([order(4), order(atoms), order(4)].concat());
        head
    };
    let (little, big) = (head(i32::to_le_bytes, 2), head(i32::to_be_bytes, 1));
    let cell = [&48_i32.to_le_bytes()[..], &[1; 48], &48_i32.to_le_bytes()].concat();
    let axis = [&8_i32.to_le_bytes()[..], &[2; 8], &8_i32.to_le_bytes()].concat();
    let pieces: &[&[u8]] = &[
        &little,
        &big,
        &cell,
        &axis,
        b"PSF EXT\n",
        b"2 !NATOM\n1 A 1 X C C 0.1 12.0 0\n2 A 1 X H H 0.1 1.0 0\n",
        b"1 !NBOND: bonds\n1 2\n",
        b"400000 !NBOND\n",
        &[1, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1],
        &[0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 192, 127],
        &[2, 6, 1],
        br#"{"do":"view","number":1,"planes":[[1,0,0,0]]}"#,
        br#"{"do":"watch","viewer":1,"part":"bond1"}"#,
        br#"{"is":"begun","viewer":1,"period_us":40000,"atoms":2,"bonds":1}"#,
        b"smartpointer/1/watch/adk",
    ];
    feed("smartpointer", pieces, anabranch_fuzz::smartpointer);
}

#[test]
fn pipeline() {
    let pieces: &[&[u8]] = &[
        b" then ",
        b"where ",
        b"a == \"x\"",
        b"(size > 1.5) && b",
        b"every ",
        b"drop layer ",
        b"select ",
        b"a, \"b c\"",
        b"\"a-then\"",
        b"region box 0 0 0 1 1 1",
        b"region sphere -1 2.5 1e9 3",
        b" with indices",
        b"precision ",
        b" of f32",
        b" of f64be",
        b"delta",
        b" whole ",
        b"5",
        b"wasm 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \"p\"",
    ];
    feed("pipeline", pieces, anabranch_fuzz::pipeline);
}

#[test]
fn operators() {
    let pieces: &[&[u8]] = &[
        &[0, 0, 24],
        &[1, 0, 48],
        &[2, 2, 24],
        &[3, 8, 4],
        &[1, 9],
        &[0, 0, 128, 63],
        &[0, 0, 128, 127],
        &[63, 240, 0, 0, 0, 0, 0, 0],
        &[255; 8],
        &[0; 12],
    ];
    feed("operators", pieces, anabranch_fuzz::operators);
}

#[test]
fn module() {
    let sections: &[&[u8]] = &[
        b"\0asm\x01\0\0\0",
        // Types: () -> i32, () -> (), (i32, i32) -> ().
        &[
            1, 13, 3, 0x60, 0, 1, 0x7f, 0x60, 0, 0, 0x60, 2, 0x7f, 0x7f, 0,
        ],
        b"\x02\x13\x01\x0aanabranch1\x04emit\0\x02",
        &[3, 2, 1, 0],
        &[5, 3, 1, 0, 1],
        b"\x07\x14\x02\x06memory\x02\0\x07process\0\x01",
    ];
    let ends: &[&[u8]] = &[
        &[10, 6, 1, 4, 0, 0x41, 0, 0x0b],
        &[10, 9, 1, 7, 0, 3, 0x40, 0x0c, 0, 0x0b, 0x0b],
        &[8, 1, 0],
    ];
    let begun = sections.concat();
    let whole: Vec<Vec<u8>> = ends.iter().map(|end| [&begun, *end].concat()).collect();
    let whole = whole.iter().map(Vec::as_slice);
    let pieces: Vec<&[u8]> = whole
        .chain([&*begun])
        .chain(sections.iter().chain(ends).copied())
        .collect();
    feed("module", &pieces, anabranch_fuzz::module);
}

#[test]
fn record_messages() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        &[2],
        br#"{"do":"get","manifest":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
        br#"{"do":"list","after":"a"}"#,
        br#"{"do":"put","bytes":7,"format":"toml","digest":"00"}"#,
        br#"{"items":[{"from":0,"to":7,"components":[0,1],"bytes":[1,2]}]}"#,
        br#"{"items":[{"record":1,"component":2,"version":3,"ranges":[[1,2]]}]}"#,
        br#"{"is":"fault","record":1,"component":0,"fault":"eclipse"}"#,
        br#"{"is":"begun","promise":{"state":"promised","rate_bps":9}}"#,
        br#"{"is":"wanted","items":[],"has_more":true}"#,
        &[0; 39],
        &[255; 8],
        b"records/1/get/climate/numbers",
        b"c 1 0 7\n",
        b"p 1 2 9 7 0-4 6-9\n",
        b"f 0 18446744073709551615\n",
    ];
    feed("record_messages", pieces, anabranch_fuzz::record_messages);
}

#[test]
fn record_set() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        b"name = \"climate\"\nrate = \"25/s\"\n",
        b"[[component]]\nname = \"a\"\nfile = \"{n:04}-{name}\"\n",
        b"[[component]]\nname = \"b\"\nfile = \"all\"\nsize = \"1 kB\"\nstride = 2_000\noffset = 7\n",
        b"optional = true\npromise = 0.95\nrate = \"1 Mbit/s\"\ndeadline = \"2 s\"\n",
        b"[records]\ncount = 100\nname = \"x{n:03}9\"\n",
        b"[[record]]\nname = \"r\"\nparts = { a = \"f\", b = { file = \"g\", extents = [[1, 2], [0, 1]] } }\n",
        br#"{"component": [{"name": "a", "file": "{n}{n}"}], "records": {"count": 12}}"#,
        br#"{"component": [{"name": "a"}], "record": [{"name": "b", "parts": {"a": "f"}}]}"#,
        b"partitioned",
        b"blocked:64KiB",
        b"../",
        b"{name}",
        b"18446744073709551615",
    ];
    feed("record_set", pieces, anabranch_fuzz::record_set);
}

#[test]
fn objectives() {
    let pieces: &[&[u8]] = &[
        b"objective { context { adu:a { stream_id == 1 } } goal { true } utility { a { 1 } } }",
        b"objective { context { adu:a { true } adu:b { stream_seq == a::stream_seq + 1 } } goal { ",
        b" } utility { a { ",
        b" } } }",
        b"hose 2\n",
        b"rate { context { stream:s { stream_id == 3 } } at_least { 1 } probability { 95 } }",
        b"field x: numeric ",
        b"expected(a::latency)",
        b"prob(a::lost?)",
        b"correlated_loss(a, b)",
        b"a::x",
        b" < ",
        b" == ",
        b" && ",
        b" / ",
        b" - ",
        b"(",
        b")",
        b"{",
        b"}",
        b"0",
        b"9007199254740991",
        b"\"I\"",
        b"// note\n",
    ];
    feed("objectives", pieces, anabranch_fuzz::objectives);
}

/// Requests of `spec/relay.md`, each preceded by its kind, source and length.
#[test]
fn relay() {
    let open = |circuit: u8, source: u8, destination: u8, origin: &[u8]| {
        let mut request = vec![0x01, 0, 0, 0, 0, 0, 0, 0, circuit];
        request.extend([0, 0, 0, 0, 0, 0x98, 0x96, 0x80, 0, 0, 0x75, 0x30]);
        request.extend_from_slice(origin);
        request.extend([4, 192, 0, 2, destination, 0x11, 0x51, 3]);
        for node in [source, 0, destination] {
            request.extend([node; 32]);
        }
        [&[2, source, request.len() as u8], &request[..]].concat()
    };
    let mut steps = vec![
        vec![2, 1, 14, 0x02, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x75, 0x30, 1],
        vec![2, 1, 9, 0x03, 0, 0, 0, 0, 0, 0, 0, 1],
        vec![0, 99],
    ];
    for source in 1..4 {
        for destination in 4..6 {
            for circuit in 1..3 {
                steps.push(open(circuit, source, destination, &[0]));
                let exact = [4, 192, 0, 2, source, 0x11, 0x51];
                steps.push(open(circuit, source, destination, &exact));
            }
        }
        steps.push(vec![1, 0, source, 200, 3]);
        steps.push(vec![1, 1, source + 3, 40, 30]);
    }
    let pieces: Vec<&[u8]> = steps.iter().map(Vec::as_slice).collect();
    feed("relay", &pieces, anabranch_fuzz::relay);
}

#[test]
fn overlay() {
    let ids: Vec<[u8; 6]> = (1..=8).map(|n| [n; 6]).collect();
    let mut pieces: Vec<&[u8]> = vec![
        // One event each: peer, kind, and its arguments.
        &[0, 1, 1, 1],
        &[1, 2, 2, 3, 1],
        &[2, 3, 0],
        &[3, 4, 40],
        &[0, 5, 20],
        &[4, 6],
        &[0, 7, 30],
        // Frames.
        &[1, 0, 0, 0, 9],
        &[4, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 1],
        &[5, 1],
        &[6],
    ];
    pieces.extend(ids.iter().map(<[u8; 6]>::as_slice));
    feed("overlay", &pieces, anabranch_fuzz::overlay);
}

/// Heads of parts, each preceded by its length: near numbers, far ones, and one invalid head.
#[test]
fn parts() {
    let head = |sequence: u16| {
        let header = anabranch_twoflow::Header {
            sequence,
            timestamp: 90_000,
            flow: 1,
            frame: 2,
            offset: 0,
            is_last: sequence.is_multiple_of(2),
        };
        let mut piece = vec![22];
        piece.extend(header.encode());
        piece.extend(b"xy");
        piece
    };
    let mut pieces: Vec<Vec<u8>> = [0, 1, 2, 3, 65_535, 1_030, 2_900, 40_000]
        .map(head)
        .to_vec();
    pieces.push(vec![3, 0x80, 0x60, 0]);
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    feed("parts", &pieces, anabranch_fuzz::parts);
}

#[test]
fn media() {
    let pieces: &[&[u8]] = &[
        // Kinds of bytes: a file, a stored index, changes in a film's tables, in a fragmented one's.
        &[0],
        &[1, 0],
        &[1, 1, 3],
        &[2, 7],
        &[3, 7],
        // A change: a place, the number of bytes, the bytes.
        &[0x01, 0x40, 0, 0xff],
        &[0x80, 0x18, 3, 0, 0, 0, 1],
        // Boxes.
        b"\0\0\0\x18ftypisom\0\0\0\0iso6mp41",
        b"\0\0\0\x08moov",
        b"\0\0\0\x10moof\0\0\0\x08traf",
        b"\0\0\0\x10stsz\0\0\0\0\0\0\0\x01\0\0\0\x02",
        b"\0\0\0\0mdat",
        // Of a stored index: bytes of the file, tracks, an id, a timescale, a codec.
        &[0x80, 0x01, 1, 1, 0x80, 0x64, 4, b'a', b'v', b'c', b'1'],
        b"und",
    ];
    feed("media", pieces, anabranch_fuzz::media);
}

/// Messages between origin and proxy, each preceded by the byte of its decoder.
#[test]
fn video() {
    let pieces: Vec<&[u8]> = vec![
        &b"\x00{\"type\":\"hello\",\"secret\":\"abc\"}"[..],
        b"\x00{\"type\":\"play\",\"id\":1,\"play\":2,\"name\":\"a\",\"version\":\"b\",\"essential\":0,\"enhanced\":1,\"lead_ms\":2,\"ahead_ms\":3}",
        b"\x00{\"type\":\"repair\",\"id\":1,\"name\":\"a\",\"version\":\"b\",\"chunk\":4,\"frames\":[1,2]}",
        b"\x01{\"type\":\"refused\",\"id\":1,\"kind\":\"full\",\"reason\":\"no\",\"retry_after_s\":3}",
        b"\x01{\"type\":\"catalogue\",\"id\":1,\"videos\":[],\"is_last\":true}",
        b"\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04data",
        b"\x03\0\0\0\0\x01\0\0\0\0\0\0\0\x04data",
        b"\x03\x01\0\0\0\x01\0\0\0\x02\0\0\0\x03",
        b"\x04\0\0\0\x01\0\0\0\x02\0\0\0\x03\x04\0\0\0\x05\0\0\0\x06d",
        b"\x05anabranch-video-enhanced/1 7",
    ];
    feed("video", &pieces, anabranch_fuzz::video);
}

/// Messages of forwards and of SOCKS, and texts, each preceded by the byte of its decoder.
#[test]
fn forward() {
    let pieces: &[&[u8]] = &[
        b"\x00\x10\x01\x01\x00\x00\x50\x09127.0.0.1",
        b"\x00\x10\x01\x01\x01\x00\x35\x01a\x01data",
        b"\x00\x10\x01\x01\x02\x00\x00\x0b/run/x.sock",
        b"\x00\x10\x01\x02\0\0\0\x07\0\0\x03\xe8\x00\x00\x50\x03::1",
        b"\x00\x10\x01\x03\0\0\0\x07\x01\x01",
        b"\x00\x11\x02no\x1b[2J",
        b"\x00\x03\0\0\0\0\0\x01\0\0",
        b"\x00\x01data",
        b"\x00\x02",
        b"\x01\x05\x02\x00\x02",
        b"\x01\x05\x01\x00\x03\x09a.example\x00\x50",
        b"\x01\x01\x03ada\x06secret",
        b"\x02\0\0\0\x01\x7f\0\0\x01\0\x35",
        b"\x02\0\0\0\x03\x01a\0\x35",
        b"\x035433:db.internal:5432",
        b"\x03udp:[::]:53:[::1]:53",
        b"\x0310.0.0.0/8:*,[2001:db8::]/32:1-9,*.lan:80",
        b"\x03unix:/run/x:unix:/run/y",
        b"\x04[[rule]]\nmatch = { address = [\"10.0.0.0/8\", \"*.a\", \"unix:/a\"], port = \"1-9\", protocol = \"udp\", dscp = 46 }\n",
        b"service = { rate = \"6 Mbit/s\", probability = \"99 %\", lifetime = \"300 ms\" }\n",
        b"\n[[rule]]\nmatch = { process = \"a\", cgroup = \"/a\", port = 7 }\nservice = \"live\"\n",
        b"\x041: 0100007F:1F90 0200007F:D431 01 0:0 0:0 0 1000 0 54321\n",
        b"unix:",
        b"udp:",
        b":",
        b"[::ffff:127.0.0.1]",
        b"/96",
        b"*",
        b",",
    ];
    feed("forward", pieces, anabranch_fuzz::forward);
}

/// Packets and messages of the tunnel, each preceded by the byte of its property.
#[test]
fn tunnel() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        &[2],
        &[3],
        &[4],
        b"\x01\x01\x05\x78\x01\x0a\x4d\x00\x02\x00",
        b"\x02\x05\x78\x01\x0a\x4d\x00\x02\x18\x0a\x4d\x00\x01\x00",
        b"\x03\x01no right",
        b"\x04",
        b"\x00\x00\x05\x00\x00\x00\x01",
        // A SYN of 44 bytes with a segment size, over IPv4.
        b"\x45\x00\x00\x2c\x00\x01\x40\x00\x40\x06\x00\x00\x0a\x4d\x00\x02\xc0\x00\x02\x01",
        b"\x00\x64\x00\x50\x00\x00\x00\x01\x00\x00\x00\x00\x60\x02\xff\xff\x00\x00\x00\x00\x02\x04\x05\xb4",
        // The header of IPv6 with 16 bytes behind a fragment header, and that header.
        b"\x60\x00\x00\x00\x00\x18\x2c\x40\xfd\x77\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\x11\x00\x00\x01\x00\x00\x00\x09",
        b"\x01\x00",
        b"\x02\x01\x40",
        b"\x03\x01\x02",
        b"10.77.0.0/24,",
        b"fd77::/64,",
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 10.77.0.2 - 1\n",
        b" fd77::2 7\n",
    ];
    feed("tunnel", pieces, anabranch_fuzz::tunnel);
}

#[test]
fn stored_video() {
    let pieces: &[&[u8]] = &[
        &[0],
        &[1],
        &[2],
        &[3],
        &[4, 1],
        b"<ListBucketResult>",
        b"</ListBucketResult>",
        b"<Contents>",
        b"</Contents>",
        b"<Key>a%2Fb.mp4</Key>",
        b"<Size>18446744073709551615</Size>",
        b"<EncodingType>url</EncodingType>",
        b"<Error><Code>NoSuchBucket</Code><Message>&#27;</Message></Error>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
        b"/v/",
        b"film",
        b"%2f",
        b"%00",
        b".mp4",
        b"/master.m3u8",
        b"/0/index.m3u8",
        b"/0/17.m4s",
        b"\n",
        b"bytes=",
        b"0-",
        b"-18446744073709551615",
        b"00000017.essential",
        b"00000017.enhanced",
        b".prefix",
        b"index",
        b"00112233445566778899aabbccddeeff",
        b"{\"00112233445566778899aabbccddeeff\":1e300}",
        b"{\"origin\":\"origin\",\"videos\":[{\"name\":\"a\",\"version\":\"b\",\"bytes\":1}]}",
    ];
    feed("stored_video", pieces, anabranch_fuzz::stored_video);
}

/// Messages of `spec/transfer.md`, each preceded by the byte of its decoder.
#[test]
fn transfer_messages() {
    let pieces: &[&[u8]] = &[
        b"\x00{\"type\":\"hello\",\"secret\":\"abc\"}",
        b"\x01{\"type\":\"offer\",\"kind\":\"directory\",\"name\":\"d\",\"entries\":2}",
        b"\x01{\"type\":\"entries\",\"list\":[{\"path\":\"d/a\",\"size_bytes\":18446744073709551615}]}",
        b"\x01{\"type\":\"offer_end\"}",
        b"\x02{\"type\":\"have\",\"index\":4294967295,\"bytes\":1,\"hash\":\"00\"}",
        b"\x02{\"type\":\"refused\",\"reason\":\"\\u001b[2J\"}",
        b"\x02{\"type\":\"done\",\"files\":1,\"bytes\":2}",
        b"\x03\x00\0\0\0\x01\0\0\0\0\0\0\0\x02data",
        b"\x03\x01\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x03\x02",
        &[7; 32],
        b"[[[[[[[[",
        b"{\"type\":",
    ];
    feed(
        "transfer_messages",
        pieces,
        anabranch_fuzz::transfer_messages,
    );
}

/// Offers, a message a line.
#[test]
fn transfer_manifest() {
    let entry = |path: &str, is_directory: bool| {
        format!(
            "{{\"type\":\"entries\",\"list\":[{{\"path\":\"{path}\",\"is_directory\":{is_directory},\"size_bytes\":7}}]}}\n"
        )
    };
    let offer = |kind: &str, name: &str| {
        format!("{{\"type\":\"offer\",\"kind\":\"{kind}\",\"name\":\"{name}\",\"entries\":9}}\n")
    };
    let mut pieces = vec!["{\"type\":\"offer_end\"}\n".to_owned()];
    for name in [
        "d",
        "..",
        ".anabranch-x",
        ".Anab\\u200dranch-x",
        "a\\u001b",
        "",
    ] {
        pieces.push(offer("directory", name));
        pieces.push(offer("file", name));
        for path in [name.to_owned(), format!("d/{name}"), format!("d/e/{name}")] {
            pieces.push(entry(&path, true));
            pieces.push(entry(&path, false));
        }
    }
    pieces.push(entry("d", true));
    pieces.push(entry("d/e", true));
    let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
    feed(
        "transfer_manifest",
        &pieces,
        anabranch_fuzz::transfer_manifest,
    );
}

#[test]
fn transfer_note() {
    let node = "a".repeat(52);
    let hash = "0".repeat(64);
    let note = format!(
        "\x01{{\"version\":2,\"sender\":\"{node}\",\"digest\":\"{hash}\",\"ticket\":\"{hash}\",\"is_complete\":false}}"
    );
    let pieces: &[&[u8]] = &[
        note.as_bytes(),
        &note.as_bytes()[..90],
        b"\x01",
        b"\x00",
        b"null",
        b"}",
        b"\n",
        hash.as_bytes(),
    ];
    feed("transfer_note", pieces, anabranch_fuzz::transfer_note);
}

#[test]
fn configuration() {
    let id = anabranch::SecretKey::from_seed([1; 32])
        .node_id()
        .to_string();
    let peer = format!("\n[[peer]]\nname = \"a\"\nnode = \"{id}\"\n");
    let member = format!("\n[[overlay.member]]\nname = \"a\"\nnode = \"{id}\"\n");
    let pieces: Vec<&[u8]> = vec![
        peer.as_bytes(),
        member.as_bytes(),
        b"may = [\"call\", \"send-files\"]\n",
        b"may = [{ right = \"send-files\", folder = \"a/b\" }]\n",
        b"may = [\"use-relay\"]\n",
        b"may = [\"call\", { right = \"forward\", to = [\"10.0.0.0/8:*\", \"unix:/a\"], listen = [\"[::1]:1-2\"] }]\n",
        b"\n[[forward]]\nlocal = \"127.0.0.1:1\"\npeer = \"a\"\nto = \"b:2\"\n",
        b"receive = \"in\"\n",
        b"addresses = [\"192.0.2.7:4433\"]\n",
        b"listen = [\"0.0.0.0:1\"]\n",
        b"\n[overlay]\nrelay = \"10 Mbit/s\"\n",
        b"relay_ports = \"40000-40003\"\n",
        b"hops = 8\npaths = 8\n",
        b"\n[session]\n",
        b"session_window = \"1 B\"\n",
        b"session_window = \"17 MiB\"\n",
        b"stream_window = \"999 GB\"\n",
        b"send_buffer = \"1 B\"\n",
        b"timeout = \"999 h\"\n",
        b"connect_timeout = \"0 s\"\n",
        b"copies_max = \"100 %\"\n",
        b"policy = \"assign\"\n",
        b"policy = \"random_walk:length=1,look_ahead_ms=1,period_ms=1,slots=1\"\n",
        b"\n[channel]\n",
        b"idle_timeout = \"999 h\"\n",
        b"idle_timeout = \"0 ns\"\n",
        b"mtu_max = \"65527 B\"\n",
        b"mtu_max = \"1200 B\"\n",
        b"ack_delay_max = \"999 h\"\n",
        b"ack_every = \"10000 packets\"\n",
        b"initial_window = \"10000 packets\"\n",
        b"queue_target = \"0 s\"\n",
        b"controller = \"fixed 1 bit/s\"\n",
        b"controller = \"aimd:1e9,1\"\n",
        b"controller = \"binomial:9,9,9,9\"\n",
        b"controller = \"verb:lte,last=1 bit/s\"\n",
        b"controller = \"ctcp:1 bit/s\"\n",
        b"model = \"satellite\"\n",
        b"\n[[cost]]\non = \"a\"\nprice = \"5 GB then stop\"\n",
    ];
    feed("configuration", &pieces, anabranch_fuzz::configuration);
}

#[test]
fn tariffs() {
    let pieces: Vec<&[u8]> = vec![
        b"\x00\x0e5 GB then stop",
        b"\x00\x0f1 B then 1e9/MB",
        b"\x00\x181 B at 0.5 J/MB then free",
        b"\x00\x04free",
        b"\x01\x06+01:00",
        b"\x01\x03UTC",
        b"\x01\x06-23:59\x1f",
        b"\x02version = 1\n",
        b"[[place]]\nname = \"wwan0\"\n",
        b"began = \"2026-11-01\"\n",
        b"began = \"9999-12-31\"\n",
        b"used_bytes = 9223372036854775807\n",
        &[8, 255, 255, 255, 255, 255, 255, 255, 255],
        &[8, 255, 255, 255, 255, 255, 255, 255, 127],
        &[5, 0, 0, 0, 0, 1],
    ];
    feed("tariffs", &pieces, anabranch_fuzz::tariffs);
}

#[test]
fn wfdb() {
    let pieces: &[&[u8]] = &[
        b"r 2 360/100(-2) 4 12:30:00.5 01/02/2003\n",
        b"r 1\n",
        b"r 64 100000 1099511627776\n",
        b"a.dat 212 200(-10)/uV 12 1024 1000 4010 0 MLII\n",
        b"b.dat 16+4 0 16 0 -5 65531 0 v1\n",
        b"../../etc/passwd 16\n",
        b"b.dat 16x2:3+18446744073709551615\n",
        b"# hole 3 4\n",
        b"# hole 18446744073709551615 2\n",
        b"# hole 5 9223372036854775807\n",
        b"\n",
        &[0x00, 0x80],
        &[0xff, 0x8f, 0x00],
    ];
    feed("wfdb", pieces, anabranch_fuzz::wfdb);
}

#[test]
fn clinic_messages() {
    let pieces: &[&[u8]] = &[
        b"{\"do\":\"hello\",\"secret\":\"abc\",\"run\":18446744073709551615}",
        b"{\"do\":\"leads\",\"header\":\"r 1\\nr.dat 16\",\"first\":3}",
        b"{\"do\":\"vital\",\"number\":1,\"at_us\":2,\"heart_rate\":1e300}",
        b"{\"do\":\"still\",\"still\":1,\"name\":\"../a\",\"bytes\":9}",
        b"{\"is\":\"kept\",\"still\":1,\"why\":null}",
        b"{\"do\":\"hello\",\"secret\":\"\",\"run\":1,\"contents\":{\"speech\":\"real\"},\"takes_key\":true}",
        b"{\"do\":\"listen\"}",
        b"{\"is\":\"key\",\"after\":18446744073709551615}",
        b"clinic/1/ekg",
        b"clinic/1/speech_up",
        &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2],
        &[
            2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0, 1,
        ],
        &[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 8, 1],
        &[0, 1],
    ];
    feed("clinic_messages", pieces, anabranch_fuzz::clinic_messages);
}

#[test]
fn speech() {
    let page = |flags: u8, body: &[u8]| {
        let mut page = b"OggS\0".to_vec();
        page.push(flags);
        page.extend([0; 20]);
        page.extend([1, body.len() as u8]);
        page.extend(body);
        page
    };
    let pages = [
        page(2, b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0"),
        page(0, b"OpusTags\0\0\0\0\0\0\0\0"),
        page(0, &[8, 1, 2]),
        page(1, &[76, 3]),
        page(0, &[8]),
    ];
    let mut pieces: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    pieces.extend([&b"OggS"[..], &[0], &[255]]);
    feed("speech", &pieces, anabranch_fuzz::speech);
}

#[test]
fn y4m() {
    let pieces: &[&[u8]] = &[
        b"YUV4MPEG2 W3 H2 F25:1 Ip C420jpeg\n",
        b"YUV4MPEG2 W2 H2\n",
        b"YUV4MPEG2 W",
        b" C422\n",
        b"FRAME\n0123456789",
        b"FRAME\n012345",
        b"FRAME Ip\n",
        b"\n",
    ];
    feed("y4m", pieces, anabranch_fuzz::y4m);
}

#[test]
fn annexb() {
    let pieces: &[&[u8]] = &[
        &[0, 0, 0, 1],
        &[0, 0, 1],
        &[0x67, 66, 0, 30, 0x80, 7],
        &[0x68, 0xc0],
        &[9, 0xf0],
        &[0x65, 0x88, 0x80, 1],
        &[0x41, 0xb0, 0x80, 2],
        &[0x41, 0x46, 0x80, 3],
        &[0x01, 0xb8, 0x80],
        &[0, 0, 3],
        &[0],
    ];
    feed("annexb", pieces, anabranch_fuzz::annexb);
}

#[test]
fn control() {
    let pieces: Vec<&[u8]> = vec![
        b"{\"show\":\"",
        b"{\"show\":\"status\"}",
        b"{\"show\":\"streams\"}",
        b"{\"show\":\"paths\"}",
        b"{\"show\":\"reload\"}",
        b"{\"show\":\"objectives\"}",
        b"{\"show\":\"objective_add\",\"text\":\"objective { context { adu:a { true } } goal { true } utility { a { 1 } } }\"}",
        b"{\"show\":\"objective_remove\",\"objective\":\"18446744073709551615\"}",
        b"{\"show\":\"explain\",\"stream\":\"stream-4\"}",
        b"{\"show\":\"admit\",\"spec\":{\"guarantee\":{\"rate\":\"1e300 Mbit/s\",\"probability\":\"95 %\"}}}",
        b"{\"show\":\"admit\",\"spec\":{\"lifetime\":\"0 s\",\"guarantee\":{\"rate\":\"3 Mbit/s\",\"probability\":\"99.999999 %\",\"window\":\"1 ns\"}}}",
        b"{\"show\":\"overlay_paths\",\"paths\":{\"to\":\"a\",\"user\":1,\"bytes\":1}}",
        b",\"session\":\"session-0\"",
        b"\x1b[2J",
        b"}",
        b"\"",
        b"\n",
    ];
    feed("control", &pieces, anabranch_fuzz::control);
}
