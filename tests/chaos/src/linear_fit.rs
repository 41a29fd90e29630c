//! The growth of a quantity with time.

/// A straight line through points, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearFit {
    /// Growth in one unit of time.
    pub slope: f64,
    /// Standard error of the slope, if the points differ from the line by chance and independently of each other.
    pub standard_error: f64,
    /// The mean of the values.
    pub mean: f64,
}

impl LinearFit {
    /// Fits a line. Returns `None` for fewer than three points, and if all have the same time.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "there are not that many")]
        let count = points.len() as f64;
        let mean = |all: &mut dyn Iterator<Item = f64>| all.sum::<f64>() / count;
        let (mean_x, mean_y) = (
            mean(&mut points.iter().map(|point| point.0)),
            mean(&mut points.iter().map(|point| point.1)),
        );
        let squares: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if squares <= 0.0 {
            return None;
        }
        let products: f64 = points
            .iter()
            .map(|(x, y)| (x - mean_x) * (y - mean_y))
            .sum();
        let slope = products / squares;
        let left = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
        let variance = points.iter().map(left).sum::<f64>() / (count - 2.0);
        Some(Self {
            slope,
            standard_error: (variance / squares).sqrt(),
            mean: mean_y,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_have_no_standard_error() {
        let points: Vec<_> = (0..10)
            .map(|x| (f64::from(x), 3.0 * f64::from(x) + 1.0))
            .collect();
        let found = LinearFit::fit(&points).unwrap();
        assert!(
            (found.slope - 3.0).abs() < 1e-9 && found.standard_error < 1e-6,
            "{found:?}"
        );
        assert!((found.mean - 14.5).abs() < 1e-9);
    }

    #[test]
    fn scattered_points_have_a_standard_error() {
        let points: Vec<_> = (0..100).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        let found = LinearFit::fit(&points).unwrap();
        assert!(found.slope.abs() < 3.0 * found.standard_error, "{found:?}");
        assert_eq!(LinearFit::fit(&points[..2]), None);
        assert_eq!(LinearFit::fit(&[(1.0, 1.0); 5]), None);
    }
}
