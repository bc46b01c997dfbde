//! A table for people: columns as wide as what is in them.

use crate::failure::Failure;
use crate::output::Output;

/// Rows of cells under a heading.
#[derive(Debug)]
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) const fn new(headings: Vec<&'static str>) -> Self {
        Self {
            headings,
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each heading.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes it, indented; numbers to the right. Without rows nothing is written.
    pub(super) fn write(&self, out: &mut Output) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let headings: Vec<String> = self.headings.iter().map(ToString::to_string).collect();
        let column = |index: usize| self.rows.iter().filter_map(move |row| row.get(index));
        let widths: Vec<usize> = headings
            .iter()
            .enumerate()
            .map(|(index, heading)| {
                let cells = column(index).map(|cell| cell.chars().count());
                cells.max().unwrap_or(0).max(heading.chars().count())
            })
            .collect();
        let is_number = |cell: &String| cell == "-" || cell.parse::<i64>().is_ok();
        let numeric: Vec<bool> = (0..headings.len())
            .map(|index| column(index).all(is_number))
            .collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let cells = row.iter().zip(&widths).zip(&numeric);
            let line: Vec<String> = cells
                .map(|((cell, width), numeric)| {
                    let width = *width;
                    if *numeric {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            out.line(format!("  {}", line.join("  ")).trim_end())?;
        }
        Ok(())
    }
}
