//! Tables for people: aligned, cut to the terminal, unchanged into a pipe.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::out::{Paint, Style, printable};

const GAP: usize = 2;
/// Where nothing else can give way any more, columns are cut down to this.
const LEAST: usize = 4;

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) right: bool,
    /// It may be cut down to this; `None`: never.
    pub(super) cut_to: Option<usize>,
    /// Of what there is to share it gets this many parts.
    pub(super) weight: usize,
    /// On a terminal too narrow for all, the highest go first; 0 stays.
    pub(super) leaves: u8,
}

impl Column {
    pub(super) const fn fixed(title: &'static str) -> Self {
        Self { title, right: false, cut_to: None, weight: 1, leaves: 0 }
    }

    pub(super) const fn right(title: &'static str) -> Self {
        Self { title, right: true, cut_to: None, weight: 1, leaves: 0 }
    }

    pub(super) const fn cut_to(mut self, width: usize) -> Self {
        self.cut_to = Some(width);
        self
    }

    pub(super) const fn weight(mut self, parts: usize) -> Self {
        self.weight = parts;
        self
    }

    pub(super) const fn leaves(mut self, order: u8) -> Self {
        self.leaves = order;
        self
    }
}

/// One cell: a line of text and how it looks.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(super) fn new(text: &str) -> Self {
        Self::painted(text, Paint::Plain)
    }

    pub(super) fn painted(text: &str, paint: Paint) -> Self {
        Self { text: one_line(text), paint }
    }
}

/// Nothing that breaks or steers the line.
pub(super) fn one_line(text: &str) -> String {
    let text = printable(text);
    if text.contains(['\n', '\t']) { text.split_whitespace().collect::<Vec<_>>().join(" ") } else { text }
}

/// `text`, no wider than `width`; what was cut off is shown by `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used < width
    });
    let mut cut: String = fits.collect();
    cut.push('…');
    cut
}

/// The lines of a table, header first.
pub(super) fn lines(columns: &[Column], rows: &[Vec<Cell>], style: Style) -> Vec<String> {
    let natural = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.width());
        cells.chain([columns[index].title.width()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(natural).collect();
    let shown = fit(columns, widths, style.width);
    let header: Vec<Cell> = columns.iter().map(|column| Cell::painted(column.title, Paint::Dim)).collect();
    std::iter::once(&header).chain(rows).map(|row| line(columns, &shown, row, style.colour)).collect()
}

/// Which columns are shown, and how wide.
fn fit(columns: &[Column], natural: Vec<usize>, limit: Option<usize>) -> Vec<(usize, usize)> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(limit) = limit else { return shown.into_iter().zip(natural).collect() };
    let total = |shown: &[usize], widths: &[usize]| {
        shown.iter().map(|index| widths[*index] + GAP).sum::<usize>().saturating_sub(GAP)
    };
    loop {
        let mut widths = natural.clone();
        // The widest for its weight gives way.
        let shrink = |widths: &mut Vec<usize>, least: &dyn Fn(&Column) -> Option<usize>| {
            while total(&shown, widths) > limit {
                let spare =
                    |index: &usize| widths[*index].saturating_sub(least(&columns[*index]).unwrap_or(usize::MAX));
                let widest = shown.iter().copied().filter(|index| spare(index) > 0);
                let Some(widest) = widest.max_by_key(|index| widths[*index] / columns[*index].weight) else { return };
                widths[widest] -= 1;
            }
        };
        shrink(&mut widths, &|column| column.cut_to);
        let leaver =
            shown.iter().copied().filter(|index| columns[*index].leaves > 0).max_by_key(|i| columns[*i].leaves);
        match leaver.filter(|_| total(&shown, &widths) > limit) {
            Some(leaver) => shown.retain(|index| *index != leaver),
            None => {
                shrink(&mut widths, &|column| column.cut_to.map(|least| least.min(LEAST)));
                return shown.into_iter().map(|index| (index, widths[index])).collect();
            }
        }
    }
}

fn line(columns: &[Column], shown: &[(usize, usize)], row: &[Cell], colour: bool) -> String {
    let mut line = String::new();
    for (place, (index, width)) in shown.iter().enumerate() {
        let Some(cell) = row.get(*index) else { continue };
        let text = cut(&cell.text, *width);
        let padding = " ".repeat(width.saturating_sub(text.width()));
        let last = place + 1 == shown.len();
        let painted = cell.paint.on(&text, colour);
        match (columns[*index].right, last) {
            (true, _) => line.extend([padding.as_str(), &painted]),
            (false, true) => line.push_str(&painted),
            (false, false) => line.extend([painted.as_str(), &padding]),
        }
        if !last {
            line.push_str(&" ".repeat(GAP));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] =
        [Column::right("ID"), Column::fixed("ERROR").cut_to(8), Column::fixed("QUEUE").leaves(1)];

    fn table(width: Option<usize>) -> Vec<String> {
        let rows = vec![
            vec![Cell::new("7"), Cell::new("no stock for\nSKU-1 日本語"), Cell::new("orders")],
            vec![Cell::new("12345"), Cell::new("x"), Cell::new("q")],
        ];
        lines(&COLUMNS, &rows, Style { colour: false, width, terminal: width.is_some() })
    }

    #[test]
    fn into_a_pipe_nothing_is_cut() {
        assert_eq!(
            table(None),
            [
                "   ID  ERROR                      QUEUE",
                "    7  no stock for SKU-1 日本語  orders",
                "12345  x                          q"
            ]
        );
    }

    #[test]
    fn on_a_terminal_the_widest_gives_way_and_then_columns_leave() {
        assert_eq!(table(Some(25))[1], "    7  no stock …  orders");
        assert_eq!(table(Some(18)), ["   ID  ERROR", "    7  no stock f…", "12345  x"]);
        for width in 20..60 {
            assert!(table(Some(width)).iter().all(|line| line.width() <= width), "{width}");
        }
    }
}
