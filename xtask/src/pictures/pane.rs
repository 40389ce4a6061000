//! A terminal at one moment, with its colours, as an SVG for light and dark screens.
//!
//! It is kept as a recording (asciicast 2) of a single frame, as a test of `rhumb top` writes it.
//! Only what sets colours is understood: whatever else would move the cursor is refused.

use std::fmt::Write;

use serde_json::Value;

/// What was shown.
#[derive(Debug, PartialEq)]
pub(crate) struct Pane {
    title: String,
    columns: usize,
    rows: Vec<Vec<Run>>,
}

/// Letters of one style that follow each other.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    column: usize,
    text: String,
    style: Style,
}

/// How letters look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Style {
    colour: Option<u8>,
    is_bold: bool,
    is_underlined: bool,
    is_reversed: bool,
}

impl Pane {
    /// Reads a recording of one frame.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut records = text.lines().map(serde_json::from_str::<Value>);
        let header = records.next().ok_or("it is empty")?.map_err(|error| error.to_string())?;
        let columns = header["width"].as_u64().filter(|columns| *columns > 0);
        let columns = columns.ok_or("its first line is no header of asciicast 2 with a width")?;
        let title = header["title"].as_str().unwrap_or("A terminal").to_owned();
        let frame = records.next().ok_or("it has no frame")?.map_err(|error| error.to_string())?;
        let (Some("o"), Some(shown), None) = (frame[1].as_str(), frame[2].as_str(), records.next())
        else {
            return Err("it is not one frame of output".to_owned());
        };
        let mut style = Style::default();
        let rows = shown.split("\r\n").map(|line| runs(line, &mut style));
        Ok(Self { title, columns: columns as usize, rows: rows.collect::<Result<_, _>>()? })
    }

    /// The whole file.
    pub(crate) fn svg(&self) -> String {
        let width = self.columns as f64 * COLUMN + 2.0 * PAD;
        let height = self.rows.len() as f64 * ROW + 2.0 * PAD;
        let mut drawn = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let top = PAD + number as f64 * ROW;
            for run in row.iter().filter(|run| !run.text.trim().is_empty() || run.style.is_reversed)
            {
                run.draw(top, &mut drawn);
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" xml:space=\"preserve\" \
             width=\"{width}\" height=\"{height}\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"s\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{drawn}</svg>\n",
            escape(&self.title),
            width - 1.0,
            height - 1.0
        )
    }
}

impl Run {
    fn draw(&self, top: f64, to: &mut String) {
        let (x, wide) = (PAD + self.column as f64 * COLUMN, self.text.chars().count() as f64);
        let wide = wide * COLUMN;
        let mut classes = Vec::new();
        if self.style.is_reversed {
            let _ = writeln!(
                to,
                "<rect class=\"r\" x=\"{x:.1}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{ROW}\"/>"
            );
            classes.push("v".to_owned());
        } else if let Some(colour) = self.style.colour {
            classes.push(format!("c{colour}"));
        }
        classes.extend(self.style.is_bold.then(|| "b".to_owned()));
        classes.extend(self.style.is_underlined.then(|| "u".to_owned()));
        let class = match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        };
        let y = top + 0.75 * ROW;
        // Fonts differ from reader to reader; columns stay where they are.
        let length = format!("textLength=\"{wide:.1}\" lengthAdjust=\"spacingAndGlyphs\"");
        let text = escape(&self.text);
        let _ = writeln!(to, "<text{class} x=\"{x:.1}\" y=\"{y}\" {length}>{text}</text>");
    }
}

/// A line's letters by style; `style` is that of the line before, and then of this one's end.
fn runs(line: &str, style: &mut Style) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut column, mut rest) = (0, line);
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\u{1b}[") {
            let (codes, after) = after.split_once('m').ok_or("an escape has no end")?;
            set(style, codes)?;
            rest = after;
            continue;
        }
        if letter.is_control() {
            return Err(format!("it has {letter:?}, which is not drawn"));
        }
        match runs.last_mut() {
            Some(run) if run.style == *style => run.text.push(letter),
            _ => runs.push(Run { column, text: letter.to_string(), style: *style }),
        }
        column += 1;
        rest = &rest[letter.len_utf8()..];
    }
    Ok(runs)
}

/// Sets a style as the codes of an escape say.
fn set(style: &mut Style, codes: &str) -> Result<(), String> {
    let mut codes = codes.split(';').map(|code| match code {
        "" => Ok(0),
        code => code.parse::<u8>().map_err(|_| format!("an escape says {code:?}")),
    });
    while let Some(code) = codes.next() {
        match code? {
            0 => *style = Style::default(),
            1 => style.is_bold = true,
            2 => style.colour = Some(8),
            4 => style.is_underlined = true,
            7 => style.is_reversed = true,
            22 => style.is_bold = false,
            24 => style.is_underlined = false,
            27 => style.is_reversed = false,
            code @ 30..=37 => style.colour = Some(code - 30),
            code @ 90..=97 => style.colour = Some(code - 82),
            39 => style.colour = None,
            49 => {}
            38 => match (codes.next().transpose()?, codes.next().transpose()?) {
                (Some(5), Some(colour @ 0..=15)) => style.colour = Some(colour),
                other => return Err(format!("it has a colour that is not drawn: {other:?}")),
            },
            other => return Err(format!("it has the escape {other}, which is not drawn")),
        }
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Classes: the screen, the terminal's colours that are used, what is reversed, bold, underlined.
const STYLE: &str = "\
text{fill:#1f2328;white-space:pre;font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.s{fill:#f6f8fa;stroke:#d0d7de}.r{fill:#1f2328}.v{fill:#f6f8fa}.b{font-weight:bold}.u{text-decoration:underline}
.c1,.c9{fill:#cf222e}.c2,.c10{fill:#1a7f37}.c3,.c11{fill:#9a6700}.c4,.c12{fill:#0969da}.c5,.c13{fill:#8250df}
.c6,.c14{fill:#1b7c83}.c7,.c8{fill:#6e7781}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#0d1117;stroke:#30363d}.r{fill:#e6edf3}.v{fill:#0d1117}
.c1,.c9{fill:#ff7b72}.c2,.c10{fill:#3fb950}.c3,.c11{fill:#d29922}.c4,.c12{fill:#58a6ff}.c5,.c13{fill:#bc8cff}
.c6,.c14{fill:#39c5cf}.c7,.c8{fill:#8b949e}}
";
/// In pixels, as are those below.
const COLUMN: f64 = 7.9;
const ROW: f64 = 18.0;
const PAD: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(shown: &str) -> Result<Pane, String> {
        let header = serde_json::json!({"version": 2, "width": 20, "height": 2, "title": "a & b"});
        let frame = serde_json::json!([0.0, "o", shown]);
        Pane::parse(&format!("{header}\n{frame}\n"))
    }

    #[test]
    fn styles_become_classes_and_columns_stay_where_they_are() {
        let shown =
            "\u{1b}[1;36mrhumb\u{1b}[0m <x>\r\n\u{1b}[7mrow\u{1b}[27m  \u{1b}[38;5;3mw\u{1b}[39m";
        let svg = pane(shown).unwrap().svg();
        for part in [
            "<title>a &amp; b</title>",
            "<text class=\"c6 b\" x=\"14.0\"",
            ">rhumb</text>",
            "> &lt;x&gt;</text>",
            "<rect class=\"r\" x=\"14.0\" y=\"32\" width=\"23.7\"",
            "<text class=\"v\"",
            "<text class=\"c3\" x=\"53.5\"",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        // Blanks need no drawing.
        assert_eq!(svg.matches("<text").count(), 4, "{svg}");
    }

    #[test]
    fn what_moves_the_cursor_is_refused() {
        for (shown, problem) in [
            ("\u{1b}[2J", "no end"),
            ("\u{1b}[5m", "escape 5"),
            ("\u{1b}[38;2;1;2;3m", "colour"),
            ("a\tb", "not drawn"),
        ] {
            let refused = pane(shown).unwrap_err();
            assert!(refused.contains(problem), "{shown:?}: {refused}");
        }
        assert!(Pane::parse("{}").is_err());
        assert!(Pane::parse("").is_err());
    }
}
