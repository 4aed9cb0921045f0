// Writes each dashboard beside this file, or into the folder that is named.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { dashboards } from "./build/dashboards.js";

const folder = process.argv[2] ?? import.meta.dirname;
for (const [name, dashboard] of Object.entries(dashboards)) {
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(dashboard, null, 1)}\n`);
}
