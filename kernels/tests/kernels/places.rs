//! Coordinates of places: the contract, the equivalent kernel with equal lengthscales, refusals.

use super::evaluation::*;

/// A number, the three coordinates of a place, and another number.
const DIMENSIONS: [Dimension; 5] = [
    Dimension::Number,
    Dimension::Coordinate { first: true },
    Dimension::Coordinate { first: false },
    Dimension::Coordinate { first: false },
    Dimension::Number,
];

/// The index of the lengthscale of each column.
const OF: [usize; 5] = [0, 1, 1, 1, 2];

fn points(n: usize, offset: usize) -> Mat<f64> {
    Mat::from_fn(n, 5, |i, d| ((i * (d + 3) + 5 * offset) as f64 * 0.618_034).fract() * 3.0 - 1.5)
}

fn told(text: &str) -> Box<dyn Kernel> {
    let mut kernel = parse(text, 5).expect(text);
    kernel.set_dimensions(&DIMENSIONS).expect(text);
    kernel
}

#[test]
fn kernels_of_places_keep_the_contract() {
    for text in [
        "rbf(ard)",
        "matern12(ard)",
        "matern32(ard)",
        "rational_quadratic(ard)",
        "wendland(ard, lengthscales=3)",
        "matern32(ard)[1:4] * rbf[4]",
        "matern32(ard) + linear(ard)",
        "scale(warp(matern52(ard)))",
        "rbf",
    ] {
        let (left, right) = (points(11, 0), points(14, 2));
        assert_contract(told(text).as_ref(), &left, &right, text);
    }
}

#[test]
fn coordinates_of_a_place_have_one_lengthscale() {
    let lengthscales = [0.7, 1.3, 2.1];
    for name in ["rbf", "matern12", "matern52", "rational_quadratic"] {
        let (mut place, mut separate) =
            (told(&format!("{name}(ard)")), parse(&format!("{name}(ard)"), 5).expect(name));
        place.for_each_parameter_mut(&mut |parameter| {
            if parameter.name == "lengthscales" {
                parameter.values.copy_from_slice(&lengthscales);
            }
        });
        separate.for_each_parameter_mut(&mut |parameter| {
            if parameter.name == "lengthscales" {
                parameter.values.iter_mut().zip(OF).for_each(|(value, of)| *value = lengthscales[of]);
            }
        });
        let x = points(40, 1);
        let [own, apart] = [&place, &separate].map(|kernel| evaluate(&**kernel, Inputs::Gram(x.as_ref())));
        assert_eq!(own.k, apart.k, "{name}");
        let (bar, spread) = (own.parameters, apart.parameters);
        let mut sums = vec![0.0; 3];
        OF.iter().zip(&spread[1..6]).for_each(|(&of, value)| sums[of] += value);
        for (of, sum) in sums.into_iter().enumerate() {
            assert!((bar[1 + of] - sum).abs() <= 1e-12 * sum.abs().max(1.0), "{name}: {bar:?} {spread:?}");
        }
        let lengths: Vec<_> = place.units(5).into_iter().map(Unit::length).collect();
        assert_eq!(lengths[1..4], [vec![0], vec![1, 2, 3], vec![4]]);
        assert_eq!((place.expression(), place.min_dims()), (format!("{name}(ard)"), 5));
    }
}
