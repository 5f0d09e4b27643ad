//! Log-log plots as SVG.

use anyhow::{Result, anyhow};
use context_guard_test_support::artifacts;
use plotters::prelude::*;

use crate::Series;

const COLORS: [RGBColor; 4] =
    [RGBColor(0, 98, 155), RGBColor(200, 80, 20), RGBColor(60, 130, 60), RGBColor(120, 80, 160)];

/// Draws series into benches/results/NAME.svg.
pub(crate) fn draw(name: &str, title: &str, x: &str, y: &str, series: &[Series]) -> Result<()> {
    let path = artifacts::root().join("benches/results").join(format!("{name}.svg"));
    let all = || series.iter().flat_map(|series| series.points.iter());
    let range = |of: fn(&(f64, f64)) -> f64| {
        let least = all().map(of).fold(f64::INFINITY, f64::min);
        let most = all().map(of).fold(0.0, f64::max);
        (least * 0.7)..(most * 1.6)
    };
    let failed = |error: &dyn std::fmt::Display| anyhow!("{name}.svg: {error}");
    let area = SVGBackend::new(&path, (760, 420)).into_drawing_area();
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(range(|point| point.0).log_scale(), range(|point| point.1).log_scale())
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|value| format_short(*value))
        .y_label_formatter(&|value| format_short(*value))
        .light_line_style(RGBColor(240, 240, 240))
        .draw()
        .map_err(|error| failed(&error))?;
    for (series, colour) in series.iter().zip(COLORS) {
        let line =
            LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)
            .map_err(|error| failed(&error))?
            .label(series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()
        .map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))?;
    eprintln!("Drawn: {}.", path.display());
    Ok(())
}

/// Formats a number without trailing zeros.
fn format_short(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", value / 1e6),
        1e3.. => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}
