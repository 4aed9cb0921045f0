// All dashboards, by the names of their files.

import type { Dashboard } from "@grafana/schema";
import { node } from "./node.js";
import { video } from "./video.js";

export const dashboards: Record<string, Dashboard> = { node, video };
