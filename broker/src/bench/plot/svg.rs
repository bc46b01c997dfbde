//! Line charts as SVG, as plain as they can be.

use std::fmt::Write;

use crate::bench::report::number;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
/// Distinguishable by those who see no red or no green.
const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31",
    "#7f7f7f",
];

/// A chart of curves.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) x_label: &'static str,
    pub(super) y_label: &'static str,
    pub(super) x_scale: Scale,
    pub(super) y_scale: Scale,
    /// By name, points by rising x.
    pub(super) curves: Vec<(String, Vec<Point>)>,
}

/// A value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// By decades.
    Log,
}

/// An axis: what its ends stand for, and where it is drawn.
struct Axis {
    scale: Scale,
    least: f64,
    greatest: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let usable = values.filter(|value| scale == Scale::Linear || *value > 0.0);
        let (mut least, mut greatest) = usable.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if least > greatest {
            (least, greatest) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => {
                least = 0.0;
                greatest = (greatest * 1.05).max(1e-9);
            }
            Scale::Log => {
                least = 10_f64.powf(least.log10().floor());
                greatest = 10_f64.powf(greatest.log10().ceil());
                if greatest <= least {
                    greatest = least * 10.0;
                }
            }
        }
        Self {
            scale,
            least,
            greatest,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.least) / (self.greatest - self.least),
            Scale::Log => {
                let value = value.max(self.least);
                (value / self.least).log10() / (self.greatest / self.least).log10()
            }
        };
        self.from + share * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Log => {
                let decades = (self.greatest / self.least).log10().round() as i32;
                (0..=decades).map(|n| self.least * 10_f64.powi(n)).collect()
            }
            Scale::Linear => {
                let rough = self.greatest / 5.0;
                let decade = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .into_iter()
                    .map(|step| step * decade)
                    .find(|step| *step >= rough)
                    .unwrap_or(rough);
                let count = (self.greatest / step).floor() as i32;
                (0..=count).map(|n| f64::from(n) * step).collect()
            }
        }
    }
}

impl Chart {
    /// The picture.
    pub(super) fn to_svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|(_, points)| points);
        let x = Axis::new(
            self.x_scale,
            points().map(|point| point.x),
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Axis::new(
            self.y_scale,
            points().flat_map(|point| [point.low, point.high]),
            HEIGHT - BOTTOM,
            TOP,
        );
        let mut out = String::new();
        let add = |out: &mut String, text: std::fmt::Arguments<'_>| {
            out.write_fmt(text)
                .expect("a string takes what it is given");
            out.push('\n');
        };
        add(
            &mut out,
            format_args!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
            ),
        );
        add(
            &mut out,
            format_args!(r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#),
        );
        add(
            &mut out,
            format_args!(
                r#"<text x="{LEFT}" y="22" font-size="15">{}</text>"#,
                escaped(self.title)
            ),
        );
        for tick in x.ticks() {
            let at = x.place(tick);
            add(
                &mut out,
                format_args!(
                    r##"<line x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{:.1}" stroke="#ddd"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"##,
                    HEIGHT - BOTTOM,
                    HEIGHT - BOTTOM + 18.0,
                    label(tick)
                ),
            );
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            add(
                &mut out,
                format_args!(
                    r##"<line x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#ddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
                    WIDTH - RIGHT,
                    LEFT - 6.0,
                    at + 4.0,
                    label(tick)
                ),
            );
        }
        add(
            &mut out,
            format_args!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                (LEFT + WIDTH - RIGHT) / 2.0,
                HEIGHT - 16.0,
                escaped(self.x_label)
            ),
        );
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        add(
            &mut out,
            format_args!(
                r#"<text x="18" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 18 {middle:.1})">{}</text>"#,
                escaped(self.y_label)
            ),
        );
        for ((name, points), (colour, number)) in
            self.curves.iter().zip(COLOURS.iter().cycle().zip(0..))
        {
            let line: Vec<String> = points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x.place(point.x), y.place(point.y)))
                .collect();
            add(
                &mut out,
                format_args!(
                    r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
                    line.join(" ")
                ),
            );
            for point in points {
                let (at, up, down) = (x.place(point.x), y.place(point.high), y.place(point.low));
                add(
                    &mut out,
                    format_args!(
                        r#"<line x1="{at:.1}" y1="{up:.1}" x2="{at:.1}" y2="{down:.1}" stroke="{colour}"/><circle cx="{at:.1}" cy="{:.1}" r="3" fill="{colour}"/>"#,
                        y.place(point.y)
                    ),
                );
            }
            let (at, down) = (WIDTH - RIGHT + 14.0, TOP + 12.0 + 18.0 * f64::from(number));
            add(
                &mut out,
                format_args!(
                    r#"<rect x="{at:.1}" y="{:.1}" width="12" height="3" fill="{colour}"/><text x="{:.1}" y="{down:.1}">{}</text>"#,
                    down - 5.0,
                    at + 18.0,
                    escaped(name)
                ),
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

fn label(value: f64) -> String {
    if value >= 1.0 && value.fract() == 0.0 && value < 10_000.0 {
        format!("{value:.0}")
    } else {
        number(value)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_their_axis_says() {
        let log = Axis::new(Scale::Log, [20.0, 3000.0].into_iter(), 0.0, 300.0);
        assert_eq!(log.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert!((log.place(10.0) - 0.0).abs() < 1e-6);
        assert!((log.place(1000.0) - 200.0).abs() < 1e-6);
        assert!((log.place(0.0) - 0.0).abs() < 1e-6, "not minus infinity");
        let linear = Axis::new(Scale::Linear, [3.0, 100.0].into_iter(), 100.0, 0.0);
        assert!((linear.place(0.0) - 100.0).abs() < 1e-6);
        assert!(linear.place(100.0) < 6.0);
        assert_eq!(linear.ticks().last(), Some(&100.0));
    }

    #[test]
    fn a_chart_is_whole_even_with_a_single_point() {
        let chart = Chart {
            title: "a < b",
            x_label: "x",
            y_label: "y",
            x_scale: Scale::Log,
            y_scale: Scale::Linear,
            curves: vec![(
                "one".to_owned(),
                vec![Point {
                    x: 1.0,
                    y: 0.0,
                    low: 0.0,
                    high: 0.0,
                }],
            )],
        };
        let svg = chart.to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
