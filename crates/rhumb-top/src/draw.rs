//! How the view looks: a line of screens, the rows of one, and a line that says what keys do.
//!
//! Invariant: whatever the size of the terminal, nothing is drawn outside of it; where there is no
//! room for anything, that is said.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Clear;

use crate::keys::KEYS;
use crate::plain::of_daemons;
use crate::screens::Screen;
use crate::sheet::{GAP, Row, Sheet, Tone};
use crate::text::{cut, fitted, width, wrapped};
use crate::view::{Front, View};

/// The narrowest terminal that shows something.
pub const LEAST_WIDTH: u16 = 40;
/// The lowest one.
pub const LEAST_HEIGHT: u16 = 10;

/// Which colours there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(crate) fn new(is_coloured: bool) -> Self {
        Self { is_coloured }
    }

    fn of(self, tone: Tone) -> Style {
        let style = Style::new();
        match (tone, self.is_coloured) {
            (Tone::Plain, _) => style,
            (Tone::Quiet, true) => style.fg(Color::DarkGray),
            (Tone::Quiet, false) => style.add_modifier(Modifier::DIM),
            (Tone::Good, true) => style.fg(Color::Green),
            (Tone::Good, false) => style,
            (Tone::Warning, true) => style.fg(Color::Yellow),
            (Tone::Warning, false) => style.add_modifier(Modifier::BOLD),
            (Tone::Bad, true) => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, false) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    fn accent(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.is_coloured { bold.fg(Color::Cyan) } else { bold }
    }
}

/// Draws all of it.
pub(crate) fn all(
    frame: &mut Frame<'_>,
    view: &mut View,
    sheet: &Sheet,
    palette: Palette,
    daemons: usize,
) {
    let area = frame.area();
    if area.width < LEAST_WIDTH || area.height < LEAST_HEIGHT {
        return too_small(frame, area);
    }
    let room = usize::from(area.width);
    put(frame, 0, heading(view, palette, daemons, room));
    put(frame, 1, tabs(view, palette, room));
    let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
    match view.front {
        Front::Sheet => rows(frame, body, view, sheet, palette),
        Front::Help => help(frame, body, palette),
        Front::Details { from } => details(frame, body, view, sheet, palette, from),
    }
    put(frame, area.height - 1, footer(view, sheet, palette, room));
}

fn put(frame: &mut Frame<'_>, row: u16, line: Line<'_>) {
    let area = frame.area();
    if row < area.height {
        frame.render_widget(line, Rect { y: area.y + row, height: 1, ..area });
    }
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Clear, area);
    let words = format!(
        "This terminal is {}x{}: rhumb top needs {LEAST_WIDTH}x{LEAST_HEIGHT}. Make it larger, \
         or leave (q) and try rhumb top --batch.",
        area.width, area.height
    );
    let lines = wrapped(&words, usize::from(area.width));
    for (row, line) in lines.iter().enumerate().take(usize::from(area.height)) {
        put(frame, row as u16, Line::raw(line.as_str()));
    }
}

fn heading(view: &View, palette: Palette, daemons: usize, room: usize) -> Line<'static> {
    let pace = match view.pace_ms {
        pace if pace % 1000 == 0 => format!("{} s", pace / 1000),
        pace => format!("{:.1} s", pace as f64 / 1000.0),
    };
    let right = match view.is_held {
        true => "held still: p goes on".to_owned(),
        false => format!("every {pace}"),
    };
    let left = format!("rhumb top  {}", of_daemons(daemons));
    let gap = room.saturating_sub(width(&left) + width(&right));
    let tone = if view.is_held { Tone::Warning } else { Tone::Quiet };
    Line::from(vec![
        Span::styled(left, palette.accent()),
        Span::raw(" ".repeat(gap)),
        Span::styled(right, palette.of(tone)),
    ])
}

/// The screens by number; by number alone where there is no room for words.
fn tabs(view: &View, palette: Palette, room: usize) -> Line<'static> {
    let all: usize = Screen::ALL.iter().map(|it| it.title().len() + 4).sum();
    let mut spans = Vec::new();
    for (number, screen) in (1..).zip(Screen::ALL) {
        let is_shown = screen == view.screen;
        let text = match all <= room + 1 || is_shown {
            true => format!(" {number} {} ", screen.title()),
            false => format!(" {number} "),
        };
        let style = match is_shown {
            true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            false => palette.of(Tone::Plain),
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

fn rows(frame: &mut Frame<'_>, body: Rect, view: &mut View, sheet: &Sheet, palette: Palette) {
    if sheet.rows.is_empty() {
        let words = match sheet.unfiltered {
            0 => sheet.empty.to_owned(),
            all => format!("None of {all} rows has \"{}\"; Esc shows all.", view.filter),
        };
        for (row, line) in (body.y + 1..body.bottom()).zip(wrapped(&words, body.width.into())) {
            put(frame, row, Line::raw(line));
        }
        return;
    }
    let widths = sheet.widths(body.width.into());
    put(frame, body.y, titles(sheet, &widths, palette));
    let height = usize::from(body.height - 1);
    view.scroll(sheet, height);
    let chosen = view.place(sheet);
    for (line, number) in (view.first..sheet.rows.len()).take(height).enumerate() {
        let is_chosen = chosen == Some(number);
        let line_of_row = row(&sheet.rows[number], sheet, &widths, is_chosen, palette, body.width);
        put(frame, body.y + 1 + line as u16, line_of_row);
    }
}

fn titles(sheet: &Sheet, widths: &[Option<usize>], palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (column, room)) in sheet.columns.iter().zip(widths).enumerate() {
        let Some(room) = *room else { continue };
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        let style = match sheet.order.column == number {
            true => palette.accent().add_modifier(Modifier::UNDERLINED),
            false => palette.accent(),
        };
        spans.push(Span::styled(fitted(column.title, room, column.is_right), style));
    }
    Line::from(spans)
}

fn row(
    row: &Row,
    sheet: &Sheet,
    widths: &[Option<usize>],
    is_chosen: bool,
    palette: Palette,
    room: u16,
) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for ((cell, column), room) in row.cells.iter().zip(sheet.columns).zip(widths) {
        let Some(room) = *room else { continue };
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
            used += GAP;
        }
        used += room;
        let text = fitted(&cell.text, room, column.is_right);
        spans.push(Span::styled(text, palette.of(cell.tone)));
    }
    let line = Line::from(spans);
    if !is_chosen {
        return line;
    }
    // The bar goes to the edge, and every cell in it can be read.
    let mut line = line;
    line.spans.push(Span::raw(" ".repeat(usize::from(room).saturating_sub(used))));
    for span in &mut line.spans {
        span.style = Style::new().add_modifier(Modifier::REVERSED);
    }
    line
}

fn help(frame: &mut Frame<'_>, body: Rect, palette: Palette) {
    let widest = KEYS.iter().map(|(keys, _)| width(keys)).max().unwrap_or(0);
    // Where there is little room, the words follow their keys at once.
    let is_narrow = usize::from(body.width) < widest + 40;
    for (row, (keys, purpose)) in (body.y..body.bottom()).zip(KEYS) {
        let keys_width = if is_narrow { width(keys) } else { widest };
        let room = usize::from(body.width).saturating_sub(keys_width + GAP + 1);
        let spans = vec![
            Span::styled(fitted(keys, keys_width, false), palette.accent()),
            Span::raw(" ".repeat(GAP)),
            Span::raw(cut(purpose, room)),
        ];
        put(frame, row, Line::from(spans));
    }
}

fn details(
    frame: &mut Frame<'_>,
    body: Rect,
    view: &mut View,
    sheet: &Sheet,
    palette: Palette,
    from: usize,
) {
    let Some(row) = view.place(sheet).and_then(|place| sheet.rows.get(place)) else {
        return put(frame, body.y, Line::raw("It is gone."));
    };
    let room = usize::from(body.width);
    let widest = row.details.iter().map(|(key, _)| width(key)).max().unwrap_or(0).min(room / 2);
    let mut lines = Vec::new();
    for (key, text) in &row.details {
        let parts = wrapped_hard(text, room.saturating_sub(widest + GAP));
        for (number, part) in parts.into_iter().enumerate() {
            let key = if number == 0 { key.as_str() } else { "" };
            lines.push(Line::from(vec![
                Span::styled(fitted(key, widest, false), palette.of(Tone::Quiet)),
                Span::raw(" ".repeat(GAP)),
                Span::raw(part),
            ]));
        }
    }
    let height = usize::from(body.height);
    view.rows_shown = height;
    let from = from.min(lines.len().saturating_sub(height));
    view.front = Front::Details { from };
    for (number, line) in lines.into_iter().skip(from).take(height).enumerate() {
        put(frame, body.y + number as u16, line);
    }
}

/// In lines of at most so many columns, of which nothing is lost: names have no place to be cut.
fn wrapped_hard(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        for letter in word.chars() {
            let line = lines.last_mut().expect("invariant: there is a first line");
            if width(line) + width(letter.encode_utf8(&mut [0; 4])) > columns.max(2) {
                lines.push(String::new());
            }
            lines.last_mut().expect("invariant: there is a first line").push(letter);
        }
    }
    lines
}

fn footer(view: &View, sheet: &Sheet, palette: Palette, room: usize) -> Line<'static> {
    if view.is_writing {
        let words = format!("/{}", view.filter);
        let hint = "  Enter keeps it, Esc shows all";
        return Line::from(vec![
            Span::styled(cut(&words, room), palette.accent()),
            Span::styled("▏", palette.accent()),
            Span::styled(
                cut(hint, room.saturating_sub(width(&words) + 1)),
                palette.of(Tone::Quiet),
            ),
        ]);
    }
    let keys = match view.front {
        Front::Sheet => "? help  / filter  s sort  r reverse  p hold  Enter details  q leave",
        Front::Help => "Esc back",
        Front::Details { .. } => "↑ ↓ more  Esc back",
    };
    let place = view.place(sheet).map_or(0, |place| place + 1);
    let mut right = format!("{place}/{}", sheet.rows.len());
    if !view.filter.is_empty() {
        right = format!("/{} {right} of {}", view.filter, sheet.unfiltered);
    }
    let right = cut(&right, room / 2);
    let left = cut(keys, room.saturating_sub(width(&right) + 1));
    let gap = room.saturating_sub(width(&left) + width(&right));
    let tone = if view.filter.is_empty() { Tone::Quiet } else { Tone::Warning };
    Line::from(vec![
        Span::styled(left, palette.of(Tone::Quiet)),
        Span::raw(" ".repeat(gap)),
        Span::styled(right, palette.of(tone)),
    ])
}
