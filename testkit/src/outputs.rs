//! Tables as CSV text, and one of several targets.

use std::ops::Range;

/// Returns a CSV text with a header and a line for each of these row numbers.
pub fn csv_text(header: &str, rows: Range<usize>, line: impl Fn(usize) -> String) -> String {
    let lines: String = rows.map(|row| line(row) + "\n").collect();
    format!("{header}\n{lines}")
}

/// Returns a table with two inputs and three outputs of two hidden curves. In every fifth row b is
/// 0 and `y3` is missing; in every seventh row `y2` is missing.
pub fn table(rows: usize) -> String {
    csv_text("a,b,y1,y2,y3", 0..rows, |i| {
        let (a, b) = ((i as f64 * 0.618).fract(), (i as f64 * 0.414).fract());
        let (f, g) = ((6.0 * a).sin(), (5.0 * b + 2.0 * a).cos());
        let noise = |k: f64| 0.05 * (i as f64 * (1.7 + k)).sin();
        let cell = |gap: bool, y: f64| if gap { String::new() } else { format!("{y:.4}") };
        let y2 = cell(i % 7 == 3, 100.0 + 20.0 * (f - 0.5 * g + noise(2.0)));
        let y3 = cell(i % 5 == 0, -g + noise(3.0));
        format!("{a:.3},{b:.3},{:.4},{y2},{y3}", 2.0 * f + g + noise(1.0))
    })
}
