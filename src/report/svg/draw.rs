//! Drawing a picture with plotters: panel, axes, layers, curves, marks.
//!
//! Owns where things stand. One unit of the chart's coordinates is one pixel: the outlines arrive reduced
//! to that grid, so plotters only has to place them.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Ticks;
use super::decorate::{Tooltips, decorate};
use super::legend;
use super::marks;
use super::outline::{Grid, outline};
use super::palette::{AXIS, GRID, Ink, MUTED, PANEL, ROLES, TEXT};
use super::picture::{COLUMNS, LEFT, Layer, Picture, SIDE, TOP, WIDTH, X_LABELS};
use super::scale::Scale;
use super::sheet::{SUBTITLE_CHARACTERS, TEXT_SIZE};
use crate::report::escape::{keep_end, keep_start, terminal};

pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

/// The picture as SVG text.
pub(super) fn render(picture: &Picture<'_>) -> String {
    let mut plotted = String::new();
    let mut tooltips = Tooltips::default();
    for ink in ROLES {
        tooltips.know(ink);
    }
    {
        let size = (WIDTH as u32, picture.height() as u32);
        let canvas = SVGBackend::with_string(&mut plotted, size).into_drawing_area();
        draw(&canvas, picture, &mut tooltips).expect("drawing into a string does not fail");
    }
    decorate(&plotted, &picture.title, &picture.description, tooltips)
}

fn draw(canvas: &Canvas<'_>, picture: &Picture<'_>, tooltips: &mut Tooltips) -> Drawn {
    canvas.fill(&PANEL.colour)?;
    text(canvas, &keep_start(&terminal(&picture.title), 90), (SIDE, 12), 19, TEXT, HPos::Left)?;
    text(
        canvas,
        &keep_start(&terminal(&picture.subtitle), SUBTITLE_CHARACTERS),
        (SIDE, 38),
        TEXT_SIZE,
        MUTED,
        HPos::Left,
    )?;
    let grid = picture.grid();
    let (across, x_name) = picture.x_axis(&grid);
    let up = Scale::new(picture.rows(), grid.y_end, &Ticks::bytes(grid.y_end));
    let plot = canvas.clone().shrink((0, TOP), (LEFT + COLUMNS, picture.rows() + X_LABELS));
    let mut chart = ChartBuilder::on(&plot)
        .x_label_area_size(X_LABELS)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(across, up)?;
    layers(&mut chart, picture, &grid, tooltips)?;
    axes(&mut chart, &x_name)?;
    curves(&mut chart, picture, &grid, tooltips)?;
    marks::draw(canvas, picture, &grid, tooltips)?;
    legend::draw(canvas, picture)?;
    canvas.present()
}

/// Grid lines lie over the layers, faintly, so that values can be read there too.
fn axes(chart: &mut Chart<'_, '_>, x_name: &str) -> Drawn {
    let label = label_style(TEXT_SIZE, MUTED);
    chart
        .configure_mesh()
        .bold_line_style(GRID.colour.mix(0.55))
        .light_line_style(TRANSPARENT)
        .axis_style(AXIS.colour)
        .label_style(label.clone())
        .axis_desc_style(label)
        .x_desc(x_name)
        .draw()
}

/// The backend divides by 1.24 to get from plotters' size to that of CSS.
fn label_style(size: u32, ink: Ink) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * 1.24).into_font().color(&ink.colour)
}

/// Text with its upper left (or right) corner, or upper middle, at `at`; `size` in pixels.
pub(super) fn text(
    canvas: &Canvas<'_>,
    text: &str,
    at: (i32, i32),
    size: u32,
    ink: Ink,
    anchor: HPos,
) -> Drawn {
    let style = label_style(size, ink).pos(Pos::new(anchor, VPos::Top));
    canvas.draw(&Text::new(text, at, style))
}

/// Highest edge first: each lower layer covers the part that belongs to it.
fn layers(chart: &mut Chart<'_, '_>, picture: &Picture<'_>, grid: &Grid, tooltips: &mut Tooltips) -> Drawn {
    let edges = picture.stacked();
    for (layer, edge) in picture.layers.iter().zip(&edges).rev() {
        tooltips.add(layer.ink, tooltip(layer));
        let points = outline(&picture.timeline.x, edge, grid).into_iter().map(as_point);
        chart.draw_series(AreaSeries::new(points, 0, layer.ink.colour.filled()))?;
    }
    Ok(())
}

fn as_point((column, row): (i64, i64)) -> (i32, i32) {
    (column as i32, row as i32)
}

fn tooltip(layer: &Layer) -> String {
    format!("{}: {}", keep_end(&layer.name, 300), layer.note)
}

fn curves(chart: &mut Chart<'_, '_>, picture: &Picture<'_>, grid: &Grid, tooltips: &mut Tooltips) -> Drawn {
    for curve in &picture.curves {
        tooltips.add(curve.ink, format!("{}: {}", curve.name, curve.note));
        let points = outline(&picture.timeline.x, &curve.values, grid).into_iter().map(as_point);
        chart.draw_series(LineSeries::new(points, curve.ink.colour.stroke_width(curve.width)))?;
    }
    Ok(())
}
