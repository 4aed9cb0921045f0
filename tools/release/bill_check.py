"""Checks of a bill of materials: against the schema of CycloneDX, and against the program's own crates."""

import json
import subprocess
import sys
import venv

# The library that the CycloneDX project keeps, which carries the schemas.
LIBRARY = "cyclonedx-python-lib[json-validation]==11.*"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
print(error or "")
sys.exit(error is not None)
"""


def check(path, prefix, cache, report):
    bill = json.loads(path.read_text())
    references = {component["bom-ref"] for component in bill["components"]}
    root = bill["metadata"]["component"]["bom-ref"]
    report(len(references) == len(bill["components"]) > 100, f"the bill of materials names {len(references)} libraries, each once")
    graph = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    report(set(graph) == references | {root}, "each has its dependencies")
    reached, waiting = set(), [root]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += graph[reference]
    report(reached == set(graph), "all are reached from the program")
    without = [c["name"] for c in bill["components"] if "licenses" not in c or (c.get("purl") and "hashes" not in c and not c["name"].startswith("anabranch"))]
    report(not without, f"all have licence and hash {without or ''}".rstrip())
    copy = prefix / "share/doc/anabranch/sbom.cdx.json"
    report(copy.read_bytes() == path.read_bytes(), "the archive has it, too")
    _check_schema(path, cache / "venv", report)


def _check_schema(path, folder, report):
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        got = subprocess.run([str(python), "-m", "pip", "install", "--quiet", LIBRARY], check=False, capture_output=True, text=True)
        if got.returncode != 0:
            print("the schema of CycloneDX cannot be had here (PyPI: cyclonedx-python-lib): left out", file=sys.stderr)
            return
        (folder / "complete").touch()
    done = subprocess.run([str(python), "-c", VALIDATE, str(path)], check=False, capture_output=True, text=True)
    report(done.returncode == 0, f"it follows the schema {done.stdout}{done.stderr}".rstrip())
