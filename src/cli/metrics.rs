//! `dlo metrics`: what there is to measure.

use serde_json::json;

use super::{
    CliError, Format,
    out::{Out, Paint},
    table::{Cell, Column, lines},
};
use crate::metrics::Metrics;

const COLUMNS: [Column; 4] = [
    Column::fixed("NAME"),
    Column::fixed("TYPE"),
    Column::fixed("LABELS").cut_to(12),
    Column::fixed("MEANING").cut_to(20),
];

pub(super) fn metrics(out: &mut Out) -> Result<(), CliError> {
    let all = Metrics::describe();
    if out.format != Format::Table {
        let records =
            all.into_iter().map(|m| json!({"name": m.name, "type": m.kind, "labels": m.labels, "help": m.help}));
        return super::records::records(&records.collect::<Vec<_>>(), out);
    }
    let row = |m: &crate::metrics::Described| {
        vec![
            Cell::painted(&m.name, Paint::Bold),
            Cell::new(&m.kind),
            Cell::painted(&m.labels.join(", "), Paint::Cyan),
            Cell::new(&m.help),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    lines(&COLUMNS, &rows, out.style).iter().try_for_each(|line| out.line(line))
}
