"""Bill of materials of a program, as CycloneDX 1.5: every crate, with version, licence, hash and dependencies."""

import datetime
import json
import re
import uuid

from .build import text_of
from .crates import checksums, crates, dependencies, is_own, packages

EDGES = "normal,build"


def write(source, program, out):
    path = out / f"{program.name(source.version)}.cdx.json"
    path.write_text(json.dumps(bill(source, program), indent=1) + "\n")
    return path


def bill(source, program):
    known, sums = packages(source), checksums(source)
    linked = set(crates(source, program))
    needs = dependencies(source, program, EDGES)
    components = [_component(crate, known[crate], sums.get(crate), crate in linked) for crate in needs if crate.name != "anabranch-cli"]
    components += _runtime(program)
    root = f"pkg:cargo/anabranch-cli@{source.version}"
    own = {
        "type": "application",
        "bom-ref": root,
        "name": "anabranch",
        "version": source.version,
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "properties": [{"name": "anabranch:target", "value": program.target}, {"name": "anabranch:part", "value": program.part}],
    }
    graph = [{"ref": _url(crate), "dependsOn": [_url(other) for other in others]} for crate, others in needs.items()]
    for entry in graph:
        if entry["ref"] == root:
            entry["dependsOn"] += [component["bom-ref"] for component in _runtime(program)]
    graph += [{"ref": component["bom-ref"]} for component in _runtime(program)]
    content = {"components": components, "dependencies": graph}
    time = datetime.datetime.fromtimestamp(source.epoch, datetime.timezone.utc)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # Of the content: the same program has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, content], sort_keys=True))}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "anabranch tools/dist"}]},
            "component": own,
        },
        **content,
    }


def _url(crate):
    return f"pkg:cargo/{crate.name}@{crate.version}"


def _component(crate, package, checksum, is_linked):
    component = {
        "type": "library",
        "bom-ref": _url(crate),
        "name": crate.name,
        "version": crate.version,
        # Not in the program: it only ran while that was built.
        "scope": "required" if is_linked else "excluded",
    }
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if licence := package["license"]:
        component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    component["purl"] = _url(crate)
    if package["repository"] and not is_own(package):
        component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return component


def _runtime(program):
    """Libraries that belong to the compiler."""
    version = re.search(r"release: (\S+)", text_of("rustc", "-vV")).group(1)
    std = {"type": "library", "bom-ref": f"rust-std@{version}", "name": "rust-std", "version": version}
    libraries = [{**std, "scope": "required", "licenses": [{"expression": "MIT OR Apache-2.0"}]}]
    if program.glibc is None:
        musl = {"type": "library", "bom-ref": f"musl@rust-{version}", "name": "musl", "description": f"as shipped with Rust {version}"}
        libraries.append({**musl, "scope": "required", "licenses": [{"expression": "MIT"}]})
    return libraries
