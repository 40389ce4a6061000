//! A line chart as SVG: two axes, ticks, a legend. Colours are of middling lightness and the ground
//! is left out, so that a chart reads on a light page and on a dark one; each line has a mark of
//! its own, for those who see no difference in hue.

use std::fmt::Write;

/// A chart of lines over one axis.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    /// Where to write a number; none: at round ones.
    pub(crate) ticks: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero.
    Linear,
    /// Of values above zero.
    Log,
}

pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// What is reckoned, in place of what was measured: dashed, without marks.
    pub(crate) is_reckoned: bool,
}

/// An axis with the values it spans and where they lie.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    begin: f64,
    end: f64,
    ticks: Vec<f64>,
}

impl Chart {
    /// The whole file.
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Span::new(&self.x, points().map(|point| point.0), LEFT, RIGHT);
        let y = Span::new(&self.y, points().map(|point| point.1), BOTTOM, TOP);
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
             <title>{0}</title>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"600\">{0}</text>\n",
            escape(&self.title)
        );
        self.draw_axes(&x, &y, &mut out);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(line, index, &x, &y, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }

    fn draw_axes(&self, x: &Span, y: &Span, out: &mut String) {
        for &tick in &y.ticks {
            let at = y.place(tick);
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"{INK}\" stroke-opacity=\".25\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.5,
                number(tick)
            );
        }
        for &tick in &x.ticks {
            let at = x.place(tick);
            let _ = writeln!(
                out,
                "<path d=\"M{at:.1} {BOTTOM}v5\" stroke=\"{INK}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 20.0,
                number(tick)
            );
        }
        let (middle, center) = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"{INK}\"/>\n\
             <text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(18 {center}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 10.0,
            escape(self.x.label),
            escape(self.y.label)
        );
    }
}

impl Span {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.chain(axis.ticks.iter().copied()) {
            (low, high) = (low.min(value), high.max(value));
        }
        let mut ticks = axis.ticks.clone();
        match axis.scale {
            Scale::Linear => {
                low = if axis.ticks.is_empty() { 0.0 } else { low };
                let step = round_step((high - low) / 5.0);
                if ticks.is_empty() {
                    high = (high / step).ceil() * step;
                    ticks =
                        (0..=(high / step).round() as u32).map(|n| f64::from(n) * step).collect();
                }
            }
            Scale::Log if ticks.is_empty() => {
                let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
                ticks = decades.map(|decade| 10f64.powi(decade)).collect();
                (low, high) = (ticks[0], ticks[ticks.len() - 1]);
            }
            Scale::Log => {}
        }
        Self { scale: axis.scale, low, high, begin, end, ticks }
    }

    /// Where a value lies.
    fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.begin + part * (self.end - self.begin)
    }
}

fn draw_line(line: &Line, index: usize, x: &Span, y: &Span, out: &mut String) {
    let colour = COLOURS[index % COLOURS.len()];
    let places: Vec<(f64, f64)> =
        line.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let dash = if line.is_reckoned { " stroke-dasharray=\"6 5\"" } else { "" };
    let _ = writeln!(
        out,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
        path.join("L")
    );
    let entry = TOP + 12.0 + 24.0 * index as f64;
    let (from, middle) = (RIGHT + 20.0, RIGHT + 34.0);
    let _ = writeln!(
        out,
        "<path d=\"M{from} {entry}h28\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        from + 36.0,
        entry + 4.5,
        escape(&line.name)
    );
    if !line.is_reckoned {
        let marks: String =
            places.iter().chain([&(middle, entry)]).map(|at| mark(index, *at)).collect();
        let _ = writeln!(out, "<path d=\"{marks}\" fill=\"{colour}\"/>");
    }
}

/// A disc, a square, a triangle, a diamond.
fn mark(index: usize, (x, y): (f64, f64)) -> String {
    match index % 4 {
        0 => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        1 => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        2 => format!("M{x:.1} {:.1}l4.5 8h-9z", y - 5.0),
        _ => format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0),
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

/// As short as it can be read back.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

const WIDTH: f64 = 840.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 340.0;
/// Contrast of at least 4 on white, and on black.
const INK: &str = "#757c86";
const COLOURS: [&str; 6] = ["#2f80d6", "#d9730d", "#1b9a6c", "#a66bd8", "#c94f6d", "#8a8f3a"];

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale) -> Chart {
        let axis = |label| Axis { label, scale, ticks: Vec::new() };
        let points = vec![(10.0, 1.0), (100.0, 40.0)];
        let line = Line { name: "a & b".to_owned(), points, is_reckoned: false };
        Chart { title: "t<".to_owned(), x: axis("x"), y: axis("y"), lines: vec![line] }
    }

    #[test]
    fn values_lie_where_the_axes_say() {
        let svg = chart(Scale::Linear).svg();
        // 10 of 0..=100 between 72 and 560; 1 of 0..=40 between 340 and 44.
        assert!(svg.contains("<path d=\"M120.8 332.6L560.0 44.0\""), "{svg}");
        assert!(svg.contains("a &amp; b") && svg.contains("<title>t&lt;</title>"));
        let svg = chart(Scale::Log).svg();
        // 10 of 10..=100; 1 and 40 of 1..=100.
        assert!(svg.contains("<path d=\"M72.0 340.0L560.0 102.9\""), "{svg}");
    }

    #[test]
    fn ticks_are_round() {
        let steps = [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (0.03, 0.05), (70.0, 100.0)];
        for (least, step) in steps {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}");
        }
        assert_eq!([0.25, 10.0, 0.0].map(number), ["0.25", "10", "0"]);
    }
}
