//! The JSON Schema of configurations, under a validator of others: `jsonschema` for Python.

use std::{path::Path, process::Command};

use crate::{harness::command, private_folder, program};

/// Validates the example, every key of it, and what the documents show; wrong texts must be found.
const SCRIPT: &str = r##"
import glob, json, re, sys, tomllib
import jsonschema

folder, schema = sys.argv[1], json.load(sys.stdin)
kind = jsonschema.Draft202012Validator
kind.check_schema(schema)
check = kind(schema)
example = open(folder + "/crates/node/node.example.toml").read()
bare = [line[1:] if line.startswith("#") else line for line in example.splitlines()]
bare = "\n".join(line for line in bare if line[:1] not in ("", " ") and (" = " in line or line[0] == "["))
texts = [example, bare]
for file in glob.glob(folder + "/docs/*.md"):
    # profiles.md shows specifications of streams.
    if not file.endswith("/profiles.md"):
        texts += re.findall(r"```toml.*?\n(.*?)```", open(file).read(), re.S)
for text in texts:
    for error in check.iter_errors(tomllib.loads(text)):
        sys.exit(f"{text}\n{list(error.path)}: {error.message}")
for text in ["prot = 7", "port = 70000", "[[peer]]\nname = \"x\"", "[session]\npolicy = 3", "[rule]\n",
             "[[peer]]\nname = \"x\"\nnode = \"y\"\nmay = [\"fly\"]"]:
    if check.is_valid(tomllib.loads(text)):
        sys.exit("accepted: " + text)
print(len(texts))
"##;

#[test]
fn configurations_are_valid_under_the_schema() {
    let Some(python) = program("python3") else {
        return;
    };
    let has = Command::new(&python)
        .args(["-c", "import jsonschema, tomllib"])
        .output()
        .unwrap();
    if !has.status.success() {
        eprintln!("skipped: jsonschema for Python is not installed");
        return;
    }
    let folder = private_folder();
    let schema = command(folder.path())
        .args(["config", "schema"])
        .output()
        .unwrap();
    let file = folder.path().join("node.schema.json");
    std::fs::write(&file, &schema.stdout).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(root)
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{error}");
    let count: usize = String::from_utf8(checked.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(count > 12, "{count}");
}
