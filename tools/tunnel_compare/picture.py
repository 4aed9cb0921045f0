"""Picture of the medians: a panel for each case, with a bar for each set-up, as SVG."""

from xml.sax.saxutils import escape

WIDTH, MARGIN, GAP = 1180, 36, 40
PANEL = (WIDTH - 2 * MARGIN - GAP) // 2
# Width of the names, and room for the value behind the longest bar.
NAMES, VALUES = 118, 112
HEAD, ROW, BAR, FOOT = 74, 25, 15, 34
TITLE = 88
INK, FAINT, GRID = "#1d2733", "#66717f", "#e3e8ee"
TARGET, TARGET_SPLIT = "#b3261e", "#8a4fbf"
COLOURS = {"anabranch": "#0b7a75", "mptcp": "#5b7db1"}
OTHER = "#a3adb8"


class Panel:
    """What a panel shows: figures of a case against an axis, with targets of a plain and of a split tunnel."""

    def __init__(self, case, title, note, figures, top, step, *, plain=None, split=None, text=None):
        self.case = case
        self.title = title
        self.note = note
        self.figures = figures
        self.top = top
        self.step = step
        self.plain = plain
        self.split = split
        self.text = text or (lambda line, name: f"{line[f'{name}_median']:.2f}")


def stall(line, name):
    median = line[f"{name}_median"]
    return f"{median / 1000:.1f} s" if median >= 1000 else f"{median:.0f} ms"


def delays(line, _):
    p50, p99 = (line[f"messages_ages_ms_{name}_median"] for name in ("p50", "p99"))
    return f"{p50:.0f} / {p99:.0f} ms at {line['goodput_fraction_median']:.2f}"


def seconds(line, name):
    return f"{line[f'{name}_median']:.1f}"


FRACTION = ("goodput_fraction",)
PANELS = [
    Panel("b", "B: one TCP download", "100 Mbit/s, 20 ms + 50 Mbit/s, 60 ms; share of the links’ rates", FRACTION, 1, 0.25, plain=0.85, split=0.93),
    Panel("c", "C: one TCP download, with losses", "80 Mbit/s, 1 % lost + 40 Mbit/s, 0.1 % lost; share of the links’ rates", FRACTION, 1, 0.25, plain=0.60, split=0.88),
    Panel("three", "three: one TCP download, changing rates", "12 + 6 + 2 Mbit/s, each ± 50 %; share of the links’ rates", FRACTION, 1, 0.25, split=0.88),
    Panel("b-quic", "B: one QUIC download", "share of the links’ rates", FRACTION, 1, 0.25, plain=0.85),
    Panel("e", "E: the fast path of B falls silent", "longest stall of the download; shorter is better", ("longest_gap_ms",), 1500, 500, plain=400, split=250, text=stall),
    Panel("f", "F: messages of 2 Mbit/s beside the download, B", "age of messages, p50 (mark) and p99 (bar), at the share that both take", ("messages_ages_ms_p99",), 120, 30, plain=30, text=delays),
    Panel("b", "B: processor time", "seconds per GB, near end (upper bar) and far end (lower bar); less is better", ("cpu_near_s_per_gb", "cpu_far_s_per_gb"), 60, 20, text=seconds),
]  # fmt: skip


def colour(setup):
    return next((value for name, value in COLOURS.items() if setup.startswith(name)), OTHER)


def element(name, text=None, **values):
    attributes = "".join(f' {key.replace("_", "-")}="{escape(str(value))}"' for key, value in values.items())
    return f"<{name}{attributes}/>" if text is None else f"<{name}{attributes}>{escape(text)}</{name}>"


def label(x, y, text, **values):
    return element("text", text, x=round(x, 1), y=round(y, 1), **({"font_size": 12, "fill": INK} | values))


def number(value):
    return f"{value:g}" if value < 1000 else f"{value:,.0f}"


def draw_panel(panel, lines, setups, left, top):
    """Elements of a panel."""
    begin, width = left + NAMES, PANEL - NAMES - VALUES
    bottom = top + HEAD + ROW * len(setups)

    def at(value):
        return begin + width * min(value, panel.top) / panel.top

    yield label(left, top + 14, panel.title, font_size=15, font_weight=600)
    yield label(left, top + 32, panel.note, fill=FAINT)
    for index in range(round(panel.top / panel.step) + 1):
        x = at(index * panel.step)
        yield element("line", x1=x, x2=x, y1=top + HEAD - 6, y2=bottom, stroke=GRID)
        yield label(x, bottom + 15, number(index * panel.step), fill=FAINT, font_size=11, text_anchor="middle")
    targets = [(panel.plain, "target", TARGET)]
    if any(setup.endswith("-split") for setup in setups):
        targets.append((panel.split, "split", TARGET_SPLIT))
    targets = [target for target in targets if target[0] is not None]
    values = []
    for row, setup in enumerate(setups):
        y = top + HEAD + ROW * row
        line = lines.get((panel.case, setup))
        is_own = setup.startswith("anabranch")
        yield label(begin - 8, y + 15, setup, text_anchor="end", font_weight=600 if is_own else 400)
        shown = [name for name in panel.figures if line and f"{name}_median" in line]
        if not shown:
            yield label(begin + 6, y + 15, "–", fill=FAINT)
            continue
        height = BAR / len(panel.figures)
        most = 0
        for part, name in enumerate(shown):
            median, least, largest = (line[f"{name}_{kind}"] for kind in ("median", "min", "max"))
            upper, middle = y + 4 + part * height, y + 4 + (part + 0.5) * height
            shape = {"height": height - (len(shown) > 1), "rx": 2, "fill": colour(setup)}
            yield element("rect", x=begin, y=upper, width=round(max(at(median) - begin, 1), 1), **shape, opacity=1 - 0.35 * part)
            if least < panel.top:
                spread = {"stroke": INK, "stroke_width": 1.2}
                yield element("line", x1=at(least), x2=at(largest), y1=middle, y2=middle, **spread)
                for end in (end for end in (least, largest) if end <= panel.top):
                    yield element("line", x1=at(end), x2=at(end), y1=middle - 3, y2=middle + 3, **spread)
            if median > panel.top:
                # The bar goes on beyond the axis.
                x = at(panel.top) - 10
                yield element("path", d=f"M{x} {y + 2}l5 {BAR + 4}M{x + 4} {y + 2}l5 {BAR + 4}", stroke="#fff", stroke_width=2)
            most = max(most, at(max(median, largest)))
        if panel.case == "f" and line["messages_ages_ms_p50_median"] <= panel.top:
            x = at(line["messages_ages_ms_p50_median"])
            yield element("line", x1=x, x2=x, y1=y + 2, y2=y + BAR + 6, stroke=INK, stroke_width=2)
        value = " / ".join(panel.text(line, name) for name in shown)
        values.append((most + 7, y + 16, value, 600 if is_own else 400))
    for index, (value, name, paint) in enumerate(targets):
        x = at(value)
        yield element("line", x1=x, x2=x, y1=top + HEAD - 8, y2=bottom, stroke=paint, stroke_width=1.4, stroke_dasharray="5 3")
        aside = {"text_anchor": "middle"}
        if len(targets) > 1:
            aside = {"text_anchor": "end" if (value < targets[1 - index][0]) else "start"}
        yield label(x, top + HEAD - 14, f"{name} {number(value)}", fill=paint, font_size=11, **aside)
    for x, y, value, weight in values:
        # Readable upon the lines of the targets.
        yield label(x, y, value, font_weight=weight, stroke="#fff", stroke_width=3, paint_order="stroke")


def draw(summary):
    """SVG of the summary's rows."""
    lines = {(line["case"], line["setup"]): line for line in summary}
    setups = list(dict.fromkeys(line["setup"] for line in summary))
    panels = [panel for panel in PANELS if any(case == panel.case for case, _ in lines)]
    height_of_panel = HEAD + ROW * len(setups) + FOOT
    height = TITLE + (len(panels) + 1) // 2 * height_of_panel + MARGIN // 2
    runs = sorted({line["runs"] for line in summary}) or [0]
    times = f"{runs[0]}" if runs[0] == runs[-1] else f"{runs[0]} to {runs[-1]}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif">',
        element("rect", width=WIDTH, height=height, fill="#fff"),
        label(MARGIN, 38, "A host on all its paths: tunnels on the same emulated links", font_size=22, font_weight=700),
        label(MARGIN, 62, f"Medians of {times} runs, with the smallest and the largest. Dashed: the target.", fill=FAINT, font_size=13),
    ]
    for index, panel in enumerate(panels):
        left = MARGIN + index % 2 * (PANEL + GAP)
        out += draw_panel(panel, lines, setups, left, TITLE + index // 2 * height_of_panel)
    return "\n".join(out + ["</svg>"]) + "\n"
