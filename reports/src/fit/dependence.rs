//! Figures of partial dependence: a curve over numbers, or an interval for each category and level.

use super::explained::{Explained, MOST_CURVES};
use crate::figures::{Band, Drawing, Interval, Series, ends, grouped, intervals};
use crate::html::{Block, Figure, figures};
use sparsegp_tables::explain::{Curve, Dependence, InputKind, Scale, Setting};
use sparsegp_tables::schema::natural_order;

const MOST_MARKS: usize = 400;

/// Categories or levels in the order of a figure.
struct Named {
    /// The prediction, or the probability of the class that varies most, if the largest comes first; `None` if the order is by meaning:
    /// numbers, months, levels of a scale.
    by: Option<Scale>,
    /// The names, each with the position of its value in the partial dependence.
    names: Vec<(String, usize)>,
}

impl Explained<'_> {
    pub(super) fn dependence_blocks(&self) -> Vec<Block> {
        figures(self.dependence.iter().map(|dependence| self.dependence_figure(dependence)))
    }

    fn dependence_figure(&self, dependence: &Dependence) -> Option<Figure> {
        let column = &self.columns[dependence.column];
        let shown = dependence.curves.len().min(MOST_CURVES);
        let curves = dependence.curves.get(..shown)?;
        let (drawing, reading) = match self.named(dependence) {
            Some(named) => (self.levels_figure(curves, &named), self.levels_caption(dependence, &named)),
            None => {
                let marks = " Grey marks are rows; the curve is uncertain far from them.";
                (self.curves_figure(dependence, curves), marks.to_owned())
            }
        };
        let all = dependence.curves.len() + dependence.left_out;
        let classes = match all - shown {
            0 => String::new(),
            _ => format!(" Of {all} classes, the {shown} with the largest mean probability are shown."),
        };
        let caption = format!(
            "The mean prediction for {} rows if '{}' is set to each value and the other columns are \
            unchanged, with the 95 % interval of the function.{reading}{classes}",
            dependence.rows, column.name
        );
        let title = format!("Partial dependence on {}", column.name);
        Figure::of(&format!("dependence-{}", column.name), &title, &caption, drawing)
    }

    /// Returns the categories or ordered levels of a column in the order of its figure; `None` for numbers.
    fn named(&self, dependence: &Dependence) -> Option<Named> {
        let column = &self.columns[dependence.column];
        let levels = self.model.schema().ordered_levels(&column.name);
        let name = |setting: &Setting| match levels {
            // Missing cells have the mean, which differs from every level.
            Some(levels) => {
                Some(levels.get(setting.value as usize).filter(|_| setting.value.fract() == 0.0)?.clone())
            }
            None => setting.category.clone(),
        };
        if levels.is_none() && dependence.settings.first()?.category.is_none() {
            return None;
        }
        let settings = dependence.settings.iter().enumerate();
        let mut names: Vec<(String, usize)> =
            settings.filter_map(|(index, setting)| Some((name(setting)?, index))).collect();
        if levels.is_some() {
            return Some(Named { by: None, names });
        }
        let texts: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(order) = natural_order(&texts) {
            names = order.into_iter().map(|place| names[place].clone()).collect();
            return Some(Named { by: None, names });
        }
        let curve = dependence.curves.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)))?;
        names.sort_by(|a, b| curve.points[b.1].0.total_cmp(&curve.points[a.1].0));
        Some(Named { by: Some(curve.scale), names })
    }

    fn levels_figure(&self, curves: &[Curve], named: &Named) -> Option<Drawing> {
        let intervals_of = |curve: &Curve| -> Vec<Interval> {
            let interval = |(name, setting): &(String, usize)| {
                let (middle, low, high) = curve.points[*setting];
                let ends = if low.is_nan() { (middle, middle) } else { (low, high) };
                Interval { name: name.clone(), middle, ends }
            };
            named.names.iter().map(interval).collect()
        };
        match curves {
            [only] => intervals(&self.axis(only.scale), &intervals_of(only), false),
            several => {
                let series = several.iter().map(|curve| (self.class(curve.scale), intervals_of(curve)));
                grouped("probability", &series.collect::<Vec<_>>())
            }
        }
    }

    fn levels_caption(&self, dependence: &Dependence, named: &Named) -> String {
        let all = match &self.columns[dependence.column].kind {
            InputKind::Codes { names } | InputKind::Categories { names, .. } => names.len(),
            InputKind::Number | InputKind::Date | InputKind::Place => 0,
        };
        let shown = named.names.len();
        let which = match all > shown {
            true => format!(" The {shown} most frequent of {all} categories are shown."),
            false => String::new(),
        };
        let order = |scale| format!(" The largest {} comes first.", self.of_what(scale));
        which + &named.by.map_or(String::new(), order)
    }

    fn curves_figure(&self, dependence: &Dependence, curves: &[Curve]) -> Option<Drawing> {
        let single = curves.len() == 1;
        let band = |curve: &Curve| {
            let points = dependence.settings.iter().zip(&curve.points);
            let points = points.map(|(setting, point)| (setting.value, point.0, point.1, point.2)).collect();
            Band { name: if single { String::new() } else { self.class(curve.scale) }, points }
        };
        let rows = self.data.rows();
        let input = self.columns[dependence.column].inputs.start;
        // Evenly from all rows, since files are often in the order of a column.
        let every = rows.len().div_ceil(MOST_MARKS).max(1);
        let rows = (0..rows.len()).step_by(every).map(|row| rows.x[(row, input)]).collect();
        let up = if single { self.axis(curves.first()?.scale) } else { "probability".to_owned() };
        let (axes, bands) = ((self.across(dependence.column), up), curves.iter().map(band).collect());
        Series { axes, bands, rows, ..Series::default() }.figure()
    }
}

fn spread(curve: &Curve) -> f64 {
    let (low, high) = ends(curve.points.iter().map(|point| point.0));
    high - low
}
