use super::*;

const COUNTED: &str = r#"
name = "climate"
rate = "25/s"

[[component]]
name = "header"
file = "climate.dat"
size = 16
stride = "172816 B"

[[component]]
name = "numbers"
file = "climate.dat"
offset = 16
size = "172800 B"
stride = "172816 B"
promise = 0.95
deadline = "2 s"

[[component]]
name = "image"
file = "images/{name}.png"
optional = true

[records]
count = 1000000
name = "{n:06}"
"#;

fn refused(text: &str) -> String {
    Manifest::from_toml(text).unwrap_err().to_string()
}

#[test]
fn records_by_pattern_take_no_memory() {
    let manifest = Manifest::from_toml(COUNTED).unwrap();
    assert_eq!(manifest.len(), 1_000_000);
    assert_eq!(manifest.record_name(999_999).unwrap(), "999999");
    assert_eq!(manifest.record_name(1_000_000), None);
    assert_eq!(manifest.find("000042"), Some(42));
    assert_eq!(manifest.find("42"), None);
    assert_eq!(manifest.find("1000000"), None);
    let part = manifest.part(3, 1).unwrap();
    assert_eq!(part.file, "climate.dat");
    let extent = Extent {
        offset: 16 + 3 * 172_816,
        bytes: 172_800,
    };
    assert_eq!(part.extents, Extents::Some(vec![extent].into()));
    assert_eq!(part.extents.end(), extent.offset + extent.bytes);
    assert_eq!(manifest.part(3, 2).unwrap().file, "images/000003.png");
    assert_eq!(manifest.part(3, 2).unwrap().extents.bytes(), None);
    assert_eq!(manifest.part(3, 3), None);
    assert_eq!(manifest.component("numbers"), Some(1));
    let service = manifest.components[1].service;
    assert_eq!((service.promise, manifest.rate), (Some(0.95), Some(25.0)));
    assert_eq!(service.deadline, Some(Duration::from_secs(2)));
}

#[test]
fn listed_records_have_parts_anywhere() {
    let json = r#"{
        "component": [{"name": "t", "promise": 0.9, "rate": "1 Mbit/s"}, {"name": "u", "file": "u-{n}"}],
        "record": [
            {"name": "b", "parts": {"t": "t.bin"}},
            {"name": "a", "parts": {"t": {"file": "x.nc", "extents": [[10, 5], [0, 2]]}, "u": {"file": "x.nc", "offset": 7, "size": "1 kB"}}}
        ]
    }"#;
    let manifest = Manifest::from_json(json).unwrap();
    assert_eq!((manifest.find("a"), manifest.find("b")), (Some(1), Some(0)));
    assert_eq!(manifest.find("c"), None);
    assert_eq!(manifest.part(0, 0).unwrap().file, "t.bin");
    assert_eq!(manifest.part(0, 1).unwrap().file, "u-0");
    let extents = manifest.part(1, 0).unwrap().extents;
    assert_eq!((extents.bytes(), extents.end()), (Some(7), 15));
    assert_eq!(manifest.part(1, 1).unwrap().extents.bytes(), Some(1_000));
    assert_eq!(manifest.part(2, 0), None);
    assert_eq!(manifest.record_name(1).unwrap(), "a");
}

#[test]
fn a_set_may_be_empty() {
    let manifest = Manifest::from_toml("[[component]]\nname = \"a\"\n").unwrap();
    assert!(manifest.is_empty() && manifest.find("x").is_none());
    let manifest = Manifest::from_toml(
        "[[component]]\nname = \"a\"\nfile = \"{n}\"\n[records]\ncount = 0\nname = \"x\"\n",
    );
    assert!(manifest.unwrap().is_empty());
}

#[test]
fn a_single_record_is_found_by_its_name() {
    let text = "[[component]]\nname = \"a\"\nfile = \"{n}\"\n[records]\ncount = 1\nname = \"x\"\n";
    let manifest = Manifest::from_toml(text).unwrap();
    assert_eq!((manifest.find("x"), manifest.find("y")), (Some(0), None));
    let empty = Manifest::from_toml(&text.replace("= 1", "= 0")).unwrap();
    assert_eq!(empty.find("x"), None);
}

#[test]
fn errors_name_the_place_the_value_and_what_is_accepted() {
    for (from, to, words) in [
        (
            "rate = \"25/s\"",
            "rate = \"25 Hz\"",
            "the set: rate = \"25 Hz\": write records of a second",
        ),
        (
            "rate = \"25/s\"",
            "",
            "component 'numbers': it is to be promised, but neither",
        ),
        (
            "0.95",
            "95",
            "component 'numbers': promise = \"95\": a share of windows",
        ),
        (
            "\"2 s\"",
            "\"2\"",
            "component 'numbers': deadline = \"2\": '2' is not a duration",
        ),
        (
            "172800 B",
            "172800",
            "component 'numbers': size = \"172800\": '172800' is not a size",
        ),
        (
            "name = \"image\"",
            "name = \"header\"",
            "component 'header': there are two of this name",
        ),
        (
            "images/{name}",
            "../{name}",
            "'.' and '..' are not possible",
        ),
        (
            "images/{name}",
            "/images/{name}",
            "relative to the set's directory",
        ),
        ("images/{name}", "images//{name}", "an empty part"),
        (
            "images/{name}.png",
            "images/{nmae}.png",
            "{nmae} is unknown; there are {n}",
        ),
        (
            "images/{name}.png",
            "images/all.png",
            "their size is needed",
        ),
        (
            "optional = true",
            "offset = 3",
            "offset and stride are for one file",
        ),
        (
            "count = 1000000",
            "count = 1000000000",
            "the set: records.count = \"1000000000\": up to 100000000",
        ),
        (
            "{n:06}",
            "same",
            "the set: records.name = \"same\": all records would have this name",
        ),
        ("{n:06}", "{name}", "cannot contain itself"),
        (
            "{n:06}",
            "a/{n}",
            "record 'a/0': name = \"a/0\": it has a '/'",
        ),
        (
            "stride = \"172816 B\"\n\n",
            "stride = \"1000 TiB\"\n\n",
            "would end beyond what a file can hold",
        ),
        (
            "optional = true",
            "optionl = true",
            "unknown field `optionl`",
        ),
        (
            "count = 1000000",
            "count = \"many\"",
            "line 26: invalid type: string",
        ),
        (
            "[records]",
            "[[record]]\nname = \"x\"\n[records]",
            "[records] and [[record]]",
        ),
    ] {
        assert!(COUNTED.contains(from), "{from}");
        let message = refused(&COUNTED.replacen(from, to, 1));
        assert!(message.contains(words), "{to}: {message}");
    }
    assert!(refused("").contains("no [[component]]"));
}

#[test]
fn errors_of_listed_records_name_the_record() {
    let with = |record: &str| {
        let json = format!(r#"{{"component": [{{"name": "temperature"}}], "record": [{record}]}}"#);
        Manifest::from_json(&json).unwrap_err().to_string()
    };
    for (record, words) in [
        (
            r#"{"name": "a"}"#,
            "record 'a', 'temperature': its component has no file",
        ),
        (
            r#"{"name": "a", "parts": {"temprature": "f"}}"#,
            "did you mean 'temperature'?",
        ),
        (
            r#"{"name": "a", "parts": {"temperature": "a\u001b"}}"#,
            "obeyed instead of shown",
        ),
        (
            r#"{"name": "..", "parts": {"temperature": "a"}}"#,
            "name = \"..\"",
        ),
        (
            r#"{"name": "a", "parts": {"temperature": {"file": "f", "offset": 3}}}"#,
            "no size; add size",
        ),
        (
            r#"{"name": "a", "parts": {"temperature": {"file": "f", "size": 3, "extents": []}}}"#,
            "give one of them",
        ),
        (
            r#"{"name": "a", "parts": {"temperature": {"file": "f", "extents": [[18446744073709551615, 1]]}}}"#,
            "than a file can",
        ),
        (
            r#"{"name": "a", "parts": {"temperature": "f"}}, {"name": "a", "parts": {"temperature": "f"}}"#,
            "record 'a': there are two of this name, number 1 and 2",
        ),
        ("{", "line 1: "),
    ] {
        let message = with(record);
        assert!(message.contains(words), "{message}");
        assert!(!message.contains('\u{1b}'), "{message}");
    }
}
