// Parts of dashboards: variables, panels, and their places in rows of three.

import type { DataSourceRef, GridPos, Panel, RowPanel, VariableModel } from "@grafana/schema";
import {
  GraphDrawStyle, LegendDisplayMode, SortOrder, TooltipDisplayMode, VariableHide, VariableRefresh, VariableSort,
  type GraphFieldConfig, type VizLegendOptions, type VizTooltipOptions,
} from "@grafana/schema";

/** The data source that the reader of the dashboard chooses. */
const SOURCE: DataSourceRef = { type: "prometheus", uid: "${datasource}" };

/** Units of Grafana. */
export type Unit = "short" | "bytes" | "Bps" | "bps" | "pps" | "s" | "percentunit" | "bool_yes_no";

/** A query and the legend of its series. */
export type Query = readonly [expression: string, legend: string];

interface Timeseries extends Record<string, unknown> {
  legend: VizLegendOptions;
  tooltip: VizTooltipOptions;
}

interface Curves extends GraphFieldConfig, Record<string, unknown> {}

export type Chart = Panel<Timeseries, Curves>;

/** Columns and lines of a chart; the width of a dashboard is 24. */
const SIZE = { w: 8, h: 8 };

/** A chart, without its place. */
export function chart(title: string, description: string, unit: Unit, queries: readonly Query[]): Chart {
  return {
    type: "timeseries",
    title,
    description,
    datasource: SOURCE,
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode(65 + index), datasource: SOURCE, expr, legendFormat, range: true,
    })),
    fieldConfig: {
      defaults: { unit, min: 0, custom: { drawStyle: GraphDrawStyle.Line, fillOpacity: 8, lineWidth: 1 } },
      overrides: [],
    },
    options: {
      legend: { displayMode: LegendDisplayMode.List, placement: "bottom", showLegend: true, calcs: [] },
      tooltip: { mode: TooltipDisplayMode.Multi, sort: SortOrder.Descending },
    },
  };
}

/** Rows with a title each, and their charts, three beside one another. */
export function placed(rows: ReadonlyArray<readonly [title: string, charts: readonly Chart[]]>): Array<Panel | RowPanel> {
  const panels: Array<Panel | RowPanel> = [];
  let y = 0;
  let id = 0;
  for (const [title, charts] of rows) {
    id += 1;
    panels.push({ type: "row", title, id, collapsed: false, gridPos: { x: 0, y, w: 24, h: 1 }, panels: [] });
    y += 1;
    charts.forEach((panel, index) => {
      const gridPos: GridPos = { x: (index % 3) * SIZE.w, y: y + Math.floor(index / 3) * SIZE.h, ...SIZE };
      id += 1;
      panels.push({ ...panel, id, gridPos });
    });
    y += Math.ceil(charts.length / 3) * SIZE.h;
  }
  return panels;
}

/** The choice of the data source. */
export const datasource: VariableModel = {
  type: "datasource", name: "datasource", label: "Data source", query: "prometheus", hide: VariableHide.dontHide, multi: false, includeAll: false,
};

/** A choice among the values of a label, all of them at first. */
export function choice(name: string, label: string, series: string): VariableModel {
  return {
    type: "query", name, label, datasource: SOURCE,
    query: { query: `label_values(${series}, ${name})`, refId: name },
    refresh: VariableRefresh.onTimeRangeChanged, sort: VariableSort.alphabeticalAsc,
    multi: true, includeAll: true, allValue: ".*", current: { text: "All", value: "$__all" },
  };
}
