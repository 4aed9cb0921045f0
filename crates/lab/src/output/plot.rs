//! Plots as SVG.

use plotters::{
    coord::{
        CoordTranslate,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    },
    prelude::*,
};

const WIDTH: u32 = 720;
const HEIGHT: u32 = 420;
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(80, 80, 80),
];

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Points joined by lines, in the order given.
    Line,
    /// Points alone.
    Points,
    /// A thin line without points, such as what is ideal.
    Guide,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its words, with the unit.
    pub words: String,
    /// Logarithmic; values must be positive.
    pub is_log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            is_log: false,
        }
    }

    /// A logarithmic axis.
    pub fn log(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            is_log: true,
        }
    }
}

/// One set of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its points; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// File name without ending; unique within the experiment.
    pub file: String,
    /// Title.
    pub title: String,
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// What is shown.
    pub curves: Vec<Curve>,
}

impl Plot {
    /// The plot as an SVG document; `None` when there is nothing to show.
    pub fn to_svg(&self) -> Option<String> {
        let curves: Vec<Curve> = self.curves.iter().map(|curve| self.usable(curve)).collect();
        let xs = range(
            curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)),
            &self.x,
        )?;
        let ys = range(
            curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)),
            &self.y,
        )?;
        let mut text = String::new();
        let drawn = {
            let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
            match (self.x.is_log, self.y.is_log) {
                (false, false) => self.draw(&area, xs.0..xs.1, ys.0..ys.1, &curves),
                (true, false) => self.draw(&area, (xs.0..xs.1).log_scale(), ys.0..ys.1, &curves),
                (false, true) => self.draw(&area, xs.0..xs.1, (ys.0..ys.1).log_scale(), &curves),
                (true, true) => {
                    let (x, y) = ((xs.0..xs.1).log_scale(), (ys.0..ys.1).log_scale());
                    self.draw(&area, x, y, &curves)
                }
            }
        };
        drawn.ok().map(|()| text)
    }

    fn usable(&self, curve: &Curve) -> Curve {
        let fits = |value: f64, axis: &Axis| value.is_finite() && (!axis.is_log || value > 0.0);
        let mut curve = curve.clone();
        curve
            .points
            .retain(|&(x, y)| fits(x, &self.x) && fits(y, &self.y));
        curve
    }

    fn draw<'a, X, Y>(
        &self,
        area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
        x: X,
        y: Y,
        curves: &[Curve],
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Cartesian2d<X::CoordDescType, Y::CoordDescType>: CoordTranslate<From = (f64, f64)>,
    {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.05))
            .x_desc(&self.x.words)
            .y_desc(&self.y.words)
            .draw()?;
        for (index, curve) in curves.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let key = move |(x, y): (i32, i32)| {
                PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
            };
            if curve.mark != Mark::Points {
                let width = if curve.mark == Mark::Guide { 1 } else { 2 };
                chart
                    .draw_series(LineSeries::new(
                        curve.points.iter().copied(),
                        colour.stroke_width(width),
                    ))?
                    .label(&curve.name)
                    .legend(key);
            }
            if curve.mark != Mark::Guide {
                let points = curve
                    .points
                    .iter()
                    .map(|&at| Circle::new(at, 2, colour.filled()));
                let series = chart.draw_series(points)?;
                if curve.mark == Mark::Points {
                    series.label(&curve.name).legend(key);
                }
            }
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()
    }
}

/// The range of the values with a little room; `None` when there are none.
fn range(values: impl Iterator<Item = f64>, axis: &Axis) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return None;
    }
    Some(if axis.is_log {
        (low / 1.2, high * 1.2)
    } else {
        let room = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-9);
        (low - room, high + room)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>, is_log: bool) -> Plot {
        Plot {
            file: "f".into(),
            title: "kept & promised".into(),
            x: Axis {
                words: "x".into(),
                is_log,
            },
            y: Axis::linear("y"),
            curves: vec![Curve {
                name: "ours".into(),
                mark: Mark::Line,
                points,
            }],
        }
    }

    #[test]
    fn draws_what_is_finite() {
        let svg = plot(vec![(1.0, 2.0), (f64::NAN, 3.0), (10.0, 4.0)], true)
            .to_svg()
            .unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("kept &amp; promised"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn nothing_to_show_is_no_plot() {
        assert_eq!(plot(vec![], false).to_svg(), None);
        assert_eq!(plot(vec![(-1.0, 1.0)], true).to_svg(), None);
        // One point, or a constant, is something.
        assert!(plot(vec![(3.0, 3.0)], false).to_svg().is_some());
    }
}
