//! One page with all experiments: plans, published figures beside ours, plots, deviations.

use std::fmt::Write;

use super::{Plot, Published};

/// One experiment on the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// The experiment's name.
    pub name: &'static str,
    /// Its plan, Markdown that begins with a heading of the first level.
    pub plan: &'static str,
    /// Provenance of the run: version, seed, recordings.
    pub provenance: String,
    /// Published figures and ours.
    pub published: Vec<Published>,
    /// Plots, in order.
    pub plots: Vec<Plot>,
    /// Location of all rows, relative to the page.
    pub rows_file: String,
}

/// The page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Sections in the order shown.
    pub sections: Vec<Section>,
}

const TITLE: &str = "Anabranch: experiments";
const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;vertical-align:top}\
th{background:#f4f4f4}code{background:#f4f4f4;padding:0 .2rem}svg{max-width:100%;height:auto;display:block;margin:1rem 0}";

impl Page {
    /// The page in Markdown; plots are the files [`Section::plot_file`] beside it.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {TITLE}\n");
        for section in &self.sections {
            let _ = write!(text, "\n{}\n\n", shift_headings(section.plan).trim_end());
            let _ = writeln!(
                text,
                "*{}* All rows: [{1}]({1}).\n",
                section.provenance, section.rows_file
            );
            if !section.published.is_empty() {
                text.push_str("| quantity | source | paper | this run |\n|---|---|---|---|\n");
                for line in &section.published {
                    let _ = writeln!(
                        text,
                        "| {} | {} | {} | {} |",
                        cell(&line.what),
                        cell(line.source),
                        cell(&line.theirs),
                        cell(&line.ours)
                    );
                }
                text.push('\n');
            }
            for plot in &section.plots {
                let _ = writeln!(text, "![{}]({})\n", plot.title, section.plot_file(plot));
            }
        }
        text
    }

    /// The page in HTML, with the plots inside: a single self-contained file.
    pub fn to_html(&self) -> String {
        let mut markdown = self.to_markdown();
        let mut pictures = Vec::new();
        for section in &self.sections {
            for plot in &section.plots {
                let Some(svg) = plot.to_svg() else { continue };
                let link = format!("![{}]({})\n", plot.title, section.plot_file(plot));
                let place = format!("\n\nPLOT-{}-TOLP\n\n", pictures.len());
                markdown = markdown.replacen(&link, &place, 1);
                pictures.push(svg);
            }
        }
        let mut body = String::new();
        let options = pulldown_cmark::Options::ENABLE_TABLES;
        let events = pulldown_cmark::Parser::new_ext(&markdown, options);
        pulldown_cmark::html::push_html(&mut body, events);
        for (index, svg) in pictures.iter().enumerate() {
            body = body.replacen(&format!("<p>PLOT-{index}-TOLP</p>"), svg, 1);
        }
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{TITLE}</title>\
             <style>{STYLE}</style></head><body>\n{body}</body></html>\n"
        )
    }
}

impl Section {
    /// File name of one of its plots.
    pub fn plot_file(&self, plot: &Plot) -> String {
        format!("{}-{}.svg", self.name, plot.file)
    }
}

/// Moves headings one level down, so that plans fit below the page's title.
fn shift_headings(plan: &str) -> String {
    let mut is_code = false;
    let lines = plan.lines().map(|line| {
        is_code ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !is_code {
            format!("#{line}")
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn cell(words: &str) -> String {
    words.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::output::{Axis, Curve, Mark};

    fn page() -> Page {
        Page {
            sections: vec![Section {
                name: "trial",
                plan: "# trial\n\n**Question.** Is 1 < 2?\n\n## Deviations\n\nNone.\n",
                provenance: "Version 1, seed 2.".into(),
                published: vec![Published::new("errs | by", "Table 1", "4 %", "11.4 %")],
                plots: vec![Plot {
                    file: "curve".into(),
                    title: "Curve".into(),
                    x: Axis::linear("x"),
                    y: Axis::linear("y"),
                    curves: vec![Curve {
                        name: "c".into(),
                        mark: Mark::Line,
                        points: vec![(0.0, 0.0), (1.0, 1.0)],
                    }],
                }],
                rows_file: "trial.csv".into(),
            }],
        }
    }

    #[test]
    fn markdown_has_plan_figures_and_plots() {
        let text = page().to_markdown();
        for words in [
            "\n## trial\n",
            "\n### Deviations\n",
            "| errs \\| by | Table 1 | 4 % | 11.4 % |",
            "![Curve](trial-curve.svg)",
            "[trial.csv](trial.csv)",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn html_stands_alone() {
        let text = page().to_html();
        assert!(text.contains("<h2>trial</h2>"));
        assert!(text.contains("Is 1 &lt; 2?"));
        assert!(text.contains("<svg") && !text.contains("TOLP") && !text.contains("<img"));
    }
}
