//! Inputs that once broke a property, each by name; those marked `ignore` still do.

use anabranch_fuzz::container;

/// A conversation: `habits`, then each frame in a container of its own.
fn input(frames: &[Vec<u8>], habits: u8) -> Vec<u8> {
    let mut v = vec![habits];
    for f in frames {
        v.push(0);
        v.push(f.len() as u8);
        v.extend(f);
    }
    v
}

#[test]
fn skips_beyond_every_credit() {
    let mut f = vec![vec![3, 0, 3, 0, 0x80, 1, 0]];
    for k in 0..6u8 {
        let mut s = vec![9, 0, k];
        s.extend([0xff; 8]);
        f.push(s);
    }
    container(&input(&f, 0));
}

#[test]
fn resets_beyond_every_credit() {
    let mut f = vec![];
    for k in 0..6u8 {
        f.push(vec![3, k * 2, 3, 0, 0x80, 1, 0]);
        let mut s = vec![7, k * 2, 0];
        s.extend([0xff; 8]);
        f.push(s);
    }
    container(&input(&f, 0));
}

#[test]
fn many_streams_hold_reliable() {
    let mut f = vec![];
    for k in 0..4u8 {
        f.push(vec![3, k * 2, 3, 0, 0x80, 1, 0]);
        f.push(vec![0x4a, k * 2, 0, 0x80, 0xff, 0xff, 0xf0, 1, 9]);
    }
    container(&input(&f, 1));
}

#[test]
fn many_streams_hold_unreliable() {
    let mut f = vec![];
    for k in 0..4u8 {
        f.push(vec![3, k * 2, 2, 0, 0x80, 1, 0]);
        f.push(vec![0x4a, k * 2, 0, 0x80, 0xff, 0xff, 0xf0, 1, 9]);
    }
    container(&input(&f, 1));
}

#[test]
fn sequences_at_the_end_of_the_range() {
    let f = vec![
        vec![3, 0, 7, 0, 0x80, 1, 0],
        vec![6, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 1, 1,
        ],
        vec![8, 1, 0],
        vec![8, 3, 0],
        vec![8, 0, 0],
    ];
    container(&input(&f, 0));
}

#[test]
fn sparse_sequences() {
    let f = vec![
        vec![3, 0, 2, 0, 0x80, 1, 0],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1,
        ],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 1, 1,
        ],
    ];
    container(&input(&f, 0));
}

/// A stand-in whose frame could not be filled up divided a table where no sample was missing, and the tables
/// outgrew the room that a fragment's size leaves for them.
#[test]
fn media_tables_outgrow_their_room() {
    anabranch_fuzz::media(&[
        93, 241, 122, 217, 50, 192, 249, 28, 198, 252, 108, 221, 228, 252, 58, 56, 8, 11, 217, 2,
        14, 156, 76, 97,
    ]);
}

/// A stored index in which two runs of the same value followed each other was read, and written again as one.
#[test]
fn media_runs_of_the_same_value() {
    anabranch_fuzz::media(&[
        45, 195, 113, 62, 83, 176, 40, 97, 65, 182, 106, 29, 213, 119, 159, 204, 15, 89, 253, 75,
        162, 95, 230, 34, 87, 100, 166, 170, 152, 198, 83, 131, 120, 98, 74, 161, 250, 200, 15, 76,
        207, 186, 187, 247, 240, 6, 219, 140, 0, 211, 133, 218, 8, 75, 180, 47, 229, 251, 217, 137,
        5, 204, 19, 142, 99, 92, 61, 141, 227, 71, 220, 128, 18, 29, 28, 226, 208, 226, 252, 13,
        83, 127, 104, 210, 44, 216, 16, 163, 195, 220, 216, 44, 54, 11, 18, 245, 22, 137, 110, 75,
        117, 6, 35, 139, 178, 33, 130, 241, 242, 28, 59, 139, 28, 138, 29, 241, 23, 31, 87, 154,
    ]);
}
