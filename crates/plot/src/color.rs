//! Colors, which the page defines: for light and for dark.

use core::fmt::Write as _;

use plotters::style::RGBColor;

/// A color by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Titles and values.
    Text,
    /// Labels of axes.
    Muted,
    /// Grid lines.
    Grid,
    /// The background.
    Surface,
    /// Allowed requests.
    Allowed,
    /// Denied requests, errors.
    Denied,
    /// Requests that would be denied, warnings.
    Shadow,
    /// One of eight colors of series without such a meaning. Numbers beyond start again.
    Series(u8),
}

/// Red and green parts that mark a color as a name. The blue part is the number of the name.
const MARKER: (u8, u8) = (0x01, 0x02);

/// The name, the color in light and the color in dark, in the order of the numbers.
const NAMES: [(&str, &str, &str); 15] = [
    ("text", "#1b2330", "#e6eaf0"),
    ("muted", "#5b6676", "#98a3b3"),
    ("grid", "#e3e7ed", "#2a323d"),
    ("surface", "#ffffff", "#151a21"),
    ("allowed", "#2f6fde", "#6ea3ff"),
    ("denied", "#d2382f", "#ff7b70"),
    ("shadow", "#b86e00", "#f0b040"),
    ("1", "#2f6fde", "#6ea3ff"),
    ("2", "#d9660b", "#ff9d4d"),
    ("3", "#0f8f83", "#3fcfbf"),
    ("4", "#8250c8", "#b894f5"),
    ("5", "#c2307c", "#f57fb4"),
    ("6", "#5f7d0e", "#a8cc4a"),
    ("7", "#0b7fa8", "#54c3ec"),
    ("8", "#6b7280", "#a3adba"),
];

/// The rules that a page with charts needs: the colors as CSS variables, for light and dark.
///
/// The scheme is that of the system, unless the root element has the attribute `data-theme` with the value `light` or `dark`.
pub const STYLE: &str = "\
:root{color-scheme:light dark;\
--plot-text:light-dark(#1b2330,#e6eaf0);--plot-muted:light-dark(#5b6676,#98a3b3);\
--plot-grid:light-dark(#e3e7ed,#2a323d);--plot-surface:light-dark(#ffffff,#151a21);\
--plot-allowed:light-dark(#2f6fde,#6ea3ff);--plot-denied:light-dark(#d2382f,#ff7b70);\
--plot-shadow:light-dark(#b86e00,#f0b040);--plot-1:light-dark(#2f6fde,#6ea3ff);\
--plot-2:light-dark(#d9660b,#ff9d4d);--plot-3:light-dark(#0f8f83,#3fcfbf);\
--plot-4:light-dark(#8250c8,#b894f5);--plot-5:light-dark(#c2307c,#f57fb4);\
--plot-6:light-dark(#5f7d0e,#a8cc4a);--plot-7:light-dark(#0b7fa8,#54c3ec);\
--plot-8:light-dark(#6b7280,#a3adba)}\
:root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}\
.plot{display:block;max-width:100%;height:auto}\
";

impl Color {
    fn number(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Surface => 3,
            Self::Allowed => 4,
            Self::Denied => 5,
            Self::Shadow => 6,
            Self::Series(number) => 7 + number % 8,
        }
    }

    /// Returns the value for a stylesheet or an attribute: the variable, with the color in light as fallback.
    pub fn css(self) -> String {
        let (name, light, _) = NAMES[usize::from(self.number())];
        format!("var(--plot-{name},{light})")
    }

    /// Returns the color that takes the place of the name until [`name_colors`] replaces it.
    pub(crate) fn marker(self) -> RGBColor {
        RGBColor(MARKER.0, MARKER.1, self.number())
    }
}

/// Replaces the markers in an SVG by variables. Quotation marks in text are escaped, so only attributes match.
pub(crate) fn name_colors(svg: &str) -> String {
    let marker = format!("\"#{:02X}{:02X}", MARKER.0, MARKER.1);
    let mut parts = svg.split(marker.as_str());
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..2).and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let (name, light, _) = NAMES[digits.unwrap_or(0).min(NAMES.len() - 1)];
        let _ = write!(named, "\"var(--plot-{name},{light})");
        named.push_str(part.get(2..).unwrap_or_default());
    }
    named
}

/// The variables for a file that is shown without a page.
pub(crate) fn file_style() -> String {
    let variables = |dark: bool| {
        let one = |&(name, light, night): &(&str, &str, &str)| {
            format!("--plot-{name}:{}", if dark { night } else { light })
        };
        NAMES.iter().map(one).collect::<Vec<_>>().join(";")
    };
    format!(
        "svg{{{}}}@media(prefers-color-scheme:dark){{svg{{{}}}}}",
        variables(false),
        variables(true)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_defines_every_color_for_light_and_dark() {
        for (name, light, dark) in NAMES {
            let rule = format!("--plot-{name}:light-dark({light},{dark})");
            assert!(STYLE.contains(&rule), "{rule}");
        }
    }

    #[test]
    fn markers_become_variables() {
        let marker = Color::Series(8).marker();
        let svg = format!(r##"<a fill="#{:02X}{:02X}{:02X}"/>"##, marker.0, marker.1, marker.2);
        assert_eq!(name_colors(&svg), r#"<a fill="var(--plot-1,#2f6fde)"/>"#);
        assert_eq!(Color::Series(0).css(), Color::Series(8).css());
    }
}
