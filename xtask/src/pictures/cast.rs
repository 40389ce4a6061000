//! A terminal's recording (asciicast 2, as asciinema writes it) as an SVG whose lines appear one
//! after another, and begin anew in the end. Nothing in it is a script: pages that show pictures
//! show it. Who asked for less motion sees all lines at once.

use std::fmt::Write;

use serde_json::Value;

/// What was recorded.
#[derive(Debug, PartialEq)]
pub(crate) struct Cast {
    title: String,
    columns: usize,
    /// When each line came, in seconds, and what it says.
    lines: Vec<(f64, String)>,
}

impl Cast {
    /// Reads a recording of plain text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut records = text.lines().map(serde_json::from_str::<Value>);
        let header = records.next().ok_or("it is empty")?.map_err(|error| error.to_string())?;
        let columns = header["width"].as_u64().filter(|columns| *columns > 0);
        let (2, Some(columns)) = (header["version"].as_u64().unwrap_or(0), columns) else {
            return Err("its first line is no header of asciicast 2 with a width".to_owned());
        };
        let title = header["title"].as_str().unwrap_or("A terminal").to_owned();
        let (mut lines, mut open) = (Vec::new(), None::<(f64, String)>);
        for record in records {
            let record = record.map_err(|error| error.to_string())?;
            let (Some(at), Some("o"), Some(data)) =
                (record[0].as_f64(), record[1].as_str(), record[2].as_str())
            else {
                return Err(format!("{record} is no output at a time"));
            };
            if data.contains('\x1b') {
                return Err("it moves the cursor or has colours, which are not drawn".to_owned());
            }
            for part in data.replace('\r', "").split_inclusive('\n') {
                let (_, line) = open.get_or_insert_with(|| (at, String::new()));
                line.push_str(part.trim_end_matches('\n'));
                if part.ends_with('\n') {
                    lines.extend(open.take());
                }
            }
        }
        lines.extend(open);
        Ok(Self { title, columns: columns as usize, lines })
    }

    /// What it says.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(_, line)| &**line)
    }

    /// The whole file.
    pub(crate) fn svg(&self) -> String {
        let rows: Vec<(f64, String)> = self.lines.iter().flat_map(|it| self.rows(it)).collect();
        let width = self.columns as f64 * COLUMN + 2.0 * PAD;
        let height = rows.len() as f64 * ROW + 2.0 * PAD;
        let seconds = rows.last().map_or(0.0, |(at, _)| at * SLOWER) + HOLD;
        let (mut style, mut text, mut kinds) = (String::new(), String::new(), 0);
        let mut before = None;
        for (number, (at, row)) in rows.iter().enumerate() {
            // Rows that come together have one animation.
            if before != Some(at) {
                (before, kinds) = (Some(at), kinds + 1);
                let percent = at * SLOWER / seconds * 100.0;
                let _ = writeln!(
                    style,
                    "@keyframes k{kinds}{{0%,{percent:.2}%{{opacity:0}}{:.2}%,to{{opacity:1}}}}\
                     .k{kinds}{{animation-name:k{kinds}}}",
                    percent + 0.01
                );
            }
            let y = PAD + (number as f64 + 0.75) * ROW;
            let row = escape(row);
            let _ = writeln!(text, "<text class=\"k{kinds}\" x=\"{PAD}\" y=\"{y}\">{row}</text>");
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" xml:space=\"preserve\" \
             width=\"{width}\" height=\"{height}\">\n<title>{}</title>\n<style>\n\
             rect{{fill:#f6f8fa;stroke:#d0d7de}}text{{fill:#1f2328;white-space:pre;\
             font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;\
             animation:{seconds:.1}s linear infinite}}\n\
             @media(prefers-color-scheme:dark){{rect{{fill:#0d1117;stroke:#30363d}}text{{fill:#e6edf3}}}}\n\
             @media(prefers-reduced-motion:reduce){{text{{animation:none!important}}}}\n{style}</style>\n\
             <rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{text}</svg>\n",
            escape(&self.title),
            width - 1.0,
            height - 1.0
        )
    }

    /// A line in as many rows as a terminal of this width takes, cut between words where it can be.
    fn rows(&self, (at, line): &(f64, String)) -> Vec<(f64, String)> {
        let mut left: Vec<char> = line.chars().collect();
        let mut rows = Vec::new();
        while left.len() > self.columns {
            let space = left[..self.columns].iter().rposition(|it| *it == ' ');
            let rest = left.split_off(space.map_or(self.columns, |at| at + 1));
            rows.push((*at, left.into_iter().collect()));
            left = rest;
        }
        rows.push((*at, left.into_iter().collect()));
        rows
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What is done in moments can be read.
const SLOWER: f64 = 3.0;
/// Seconds that all of it stays before it begins anew.
const HOLD: f64 = 10.0;
/// In pixels, as are those below.
const FONT: f64 = 13.0;
const COLUMN: f64 = 7.9;
const ROW: f64 = 18.0;
const PAD: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"version":2,"width":4,"title":"a < b"}
[0.5,"o","one\r\nsi"]
[1.0,"o","x more\n\nfourfive\n"]
"#;

    #[test]
    fn lines_are_put_together_and_wrapped() {
        let cast = Cast::parse(SMALL).unwrap();
        assert_eq!(cast.lines().collect::<Vec<_>>(), ["one", "six more", "", "fourfive"]);
        let svg = cast.svg();
        for row in [">one<", ">six <", ">more<", "><", ">four<", ">five<", "<title>a &lt; b<"] {
            assert!(svg.contains(row), "{row}: {svg}");
        }
        assert_eq!(svg.matches("@keyframes").count(), 2);
    }

    #[test]
    fn what_is_no_plain_recording_is_refused() {
        for (text, problem) in [
            ("", "empty"),
            ("{\"version\":3,\"width\":80}", "asciicast 2"),
            ("{\"version\":2,\"width\":80}\n[1,\"i\",\"x\"]", "no output"),
            ("{\"version\":2,\"width\":80}\n[1,\"o\",\"\\u001b[1m\"]", "colours"),
        ] {
            let refused = Cast::parse(text).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
