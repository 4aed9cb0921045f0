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
