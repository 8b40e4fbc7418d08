//! Tables as `kubectl` prints them: a header, columns apart by three spaces, no lines, no trailing
//! spaces. Cells are neither cut nor wrapped, so that every line can be searched and copied.

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::words;

/// The table as text, each line ended.
pub(super) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| words::line(cell)).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// The cell of a value that is not known or does not apply.
pub(super) const NONE: &str = "-";
