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

/// Style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Points joined by lines, in the order given.
    Line,
    /// Points alone.
    Points,
    /// A thin line without points, for an ideal or a reference.
    Guide,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its label, with the unit.
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
    /// Name in the legend.
    pub name: String,
    /// Style.
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
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves.
    pub curves: Vec<Curve>,
}

impl Plot {
    /// The plot as an SVG document; `None` if there are no points.
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

    /// Corner in which a legend hides the fewest points.
    fn legend_at(&self, curves: &[Curve]) -> SeriesLabelPosition {
        let corners = [
            (SeriesLabelPosition::UpperRight, [true, true]),
            (SeriesLabelPosition::UpperLeft, [false, true]),
            (SeriesLabelPosition::LowerRight, [true, false]),
            (SeriesLabelPosition::LowerLeft, [false, false]),
        ];
        let places = |axis: &Axis, of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            let scaled = |value: f64| if axis.is_log { value.ln() } else { value };
            let all = curves.iter().flat_map(|curve| &curve.points);
            let values: Vec<f64> = all.map(|point| scaled(of(point))).collect();
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let width = (high - low).max(f64::MIN_POSITIVE);
            values.iter().map(|value| (value - low) / width).collect()
        };
        let (xs, ys) = (places(&self.x, |p| p.0), places(&self.y, |p| p.1));
        let near = |place: f64, is_high: bool| (if is_high { 1.0 - place } else { place }) < 0.4;
        let hidden = |[right, upper]: [bool; 2]| {
            let points = xs.iter().zip(&ys);
            points
                .filter(|&(&x, &y)| near(x, right) && near(y, upper))
                .count()
        };
        let best = corners.into_iter().min_by_key(|(_, at)| hidden(*at));
        best.map_or(SeriesLabelPosition::UpperRight, |(corner, _)| corner)
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
            .x_label_formatter(&|&value| tick(value, self.x.is_log))
            .y_label_formatter(&|&value| tick(value, self.y.is_log))
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
        if curves.len() < 2 {
            return area.present();
        }
        chart
            .configure_series_labels()
            .position(self.legend_at(curves))
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()
    }
}

/// Label of a number beside an axis: 0.25, 5, 20 k, 1 G. On a logarithmic axis only 1, 2 and 5 times a power of ten have one,
/// because the others are too close.
fn tick(value: f64, is_log: bool) -> String {
    let size = value.abs();
    if is_log && size > 0.0 {
        let mantissa = size / 10f64.powf((size.log10() + 1e-9).floor());
        if ![1.0, 2.0, 5.0].iter().any(|m| (mantissa - m).abs() < 1e-3) {
            return String::new();
        }
    }
    let units = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (one, unit) = units
        .into_iter()
        .find(|(one, _)| size >= one * 0.999_999)
        .unwrap_or((1.0, ""));
    // Sums of steps leave a rounding error, also at 0.
    let rounded = (value / one * 1e6).round() / 1e6 + 0.0;
    format!("{rounded}{unit}")
}

/// Range of the values with a small margin; `None` if there are none.
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
        let margin = ((high - low) * 0.05).max(high.abs() * 1e-3).max(1e-9);
        (low - margin, high + margin)
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
    fn draws_finite_values() {
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
        // One point, or a constant, is enough for a plot.
        assert!(plot(vec![(3.0, 3.0)], false).to_svg().is_some());
    }

    #[test]
    fn numbers_beside_an_axis() {
        for (value, is_log, words) in [
            (0.1 + 0.2, false, "0.3"),
            (-1e-17, false, "0"),
            (5.0, false, "5"),
            (-0.4, false, "-0.4"),
            (1_500.0, false, "1.5 k"),
            (20_000.0, true, "20 k"),
            (1e9, true, "1 G"),
            (10f64.powf(-2.0), true, "0.01"),
            (0.3, true, ""),
        ] {
            assert_eq!(tick(value, is_log), words, "{value}");
        }
    }

    #[test]
    fn the_legend_hides_nothing_where_a_corner_is_free() {
        let line = |points: Vec<(f64, f64)>| Curve {
            name: String::new(),
            mark: Mark::Line,
            points,
        };
        let plot = Plot {
            file: String::new(),
            title: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            curves: vec![
                line(vec![(0.0, 0.0), (1.0, 1.0)]),
                line(vec![(0.0, 1.0), (0.9, 0.9)]),
            ],
        };
        assert!(matches!(
            plot.legend_at(&plot.curves),
            SeriesLabelPosition::LowerRight
        ));
    }
}
