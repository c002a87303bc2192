//! Structured products and factorisations against plain loops, for sizes on both sides of every block boundary.

use faer::{Accum, Mat, MatRef};
use sparsegp::linalg::*;
use sparsegp_testkit::problems::Normals;

fn shaped(normals: &mut Normals, rows: usize, cols: usize, shape: Shape) -> Mat<f64> {
    let full = normals.mat(rows, cols);
    Mat::from_fn(rows, cols, |i, j| match shape {
        Shape::Lower if i < j => 0.0,
        Shape::Upper if i > j => 0.0,
        _ => full[(i, j)],
    })
}

fn assert_close(got: MatRef<'_, f64>, want: MatRef<'_, f64>, lower_only: bool, what: &str) {
    for j in 0..want.ncols() {
        for i in if lower_only { j } else { 0 }..want.nrows() {
            let (g, w) = (got[(i, j)], want[(i, j)]);
            assert!((g - w).abs() <= 1e-10 * (1.0 + w.abs()), "{what} ({i}, {j}): {g}, expected {w}");
        }
    }
}

#[test]
fn products_skip_only_zeros() {
    let shapes = [Shape::Full, Shape::Lower, Shape::Upper];
    for n in [1, 31, 33, 130, 200] {
        let mut normals = Normals::new(n as u64);
        for left_shape in shapes {
            for right_shape in shapes {
                let left = shaped(&mut normals, n, n, left_shape);
                let right = shaped(&mut normals, n, n, right_shape);
                let want = &left * &right;
                for part in [Part::All, Part::Lower] {
                    let start = normals.mat(n, n);
                    let what = format!("{n} {left_shape:?} {right_shape:?} {part:?}");
                    let mut out = start.clone();
                    let l = Operand { matrix: left.as_ref(), shape: left_shape };
                    let r = Operand { matrix: right.as_ref(), shape: right_shape };
                    product(out.as_mut(), part, Accum::Replace, l, r, 1.0);
                    assert_close(out.as_ref(), want.as_ref(), part == Part::Lower, &what);
                    let mut out = start.clone();
                    product(out.as_mut(), part, Accum::Add, l, r, -0.5);
                    let want = &start - 0.5 * &want;
                    assert_close(out.as_ref(), want.as_ref(), part == Part::Lower, &what);
                }
            }
            let left = shaped(&mut normals, n, n, left_shape);
            let right = normals.mat(n, 17);
            let mut out = normals.mat(n, 17);
            let l = Operand { matrix: left.as_ref(), shape: left_shape };
            block_product(out.as_mut(), Accum::Replace, l, right.as_ref(), 2.0);
            assert_close(out.as_ref(), (2.0 * &left * &right).as_ref(), false, "of a block");
        }
    }
}

#[test]
fn factorisations_of_every_size() {
    for n in [1, 2, 64, 127, 128, 129, 200, 300, 513] {
        let mut normals = Normals::new(n as u64);
        let root = normals.mat(n, n);
        let spd = Mat::from_fn(n, n, |i, j| if i == j { n as f64 } else { 0.0 }) + &root * root.transpose();
        let mut l = spd.clone();
        Factorizer::new(n).cholesky(l.as_mut()).expect("positive definite");
        let (rebuilt, scale) = (&l * l.transpose(), 1.0 / n as f64);
        assert_close((scale * &rebuilt).as_ref(), (scale * &spd).as_ref(), false, "L Lᵀ");
        assert!((0..n).all(|j| (0..j).all(|i| l[(i, j)] == 0.0)), "zeros above the diagonal");
        let mut inverse = normals.mat(n, n);
        invert_lower(l.as_ref(), inverse.as_mut());
        assert_close((&inverse * &l).as_ref(), Mat::<f64>::identity(n, n).as_ref(), false, "L⁻¹ L");
        assert!((0..n).all(|j| (0..j).all(|i| inverse[(i, j)] == 0.0)), "zeros above the diagonal");
        let (mut both, mut beside) = (spd.clone(), normals.mat(n, n));
        Factorizer::new(n).cholesky_with_inverse(both.as_mut(), beside.as_mut()).expect("positive definite");
        assert_eq!(both, l, "the factor does not depend on its inverse");
        assert_close((&beside * &l).as_ref(), Mat::<f64>::identity(n, n).as_ref(), false, "L⁻¹ L");
        assert!((0..n).all(|j| (0..j).all(|i| beside[(i, j)] == 0.0)), "zeros above the diagonal");
        let mut spd_inverse = Mat::zeros(n, n);
        gram_of_inverse(inverse.as_ref(), spd_inverse.as_mut());
        assert_close((&spd_inverse * &spd).as_ref(), Mat::<f64>::identity(n, n).as_ref(), false, "A⁻¹ A");
        let (values, _) = symmetric_eigen(spd.as_ref()).expect("finite");
        let log_det_eigen: f64 = values.iter().map(|v| v.ln()).sum();
        assert!((log_det(l.as_ref()) - log_det_eigen).abs() < 1e-9 * n as f64);
        let estimate = gram_norm(l.transpose());
        assert!(estimate <= values[n - 1] * (1.0 + 1e-12) && estimate >= 0.5 * values[n - 1]);
    }
}

#[test]
fn congruences_read_a_lower_triangle_and_are_symmetric() {
    for n in [1, 31, 33, 130, 200, 300] {
        let mut normals = Normals::new(n as u64);
        let half = normals.mat(n, n);
        let symmetric = &half + half.transpose();
        for shape in [Shape::Full, Shape::Lower, Shape::Upper] {
            let w = shaped(&mut normals, n, n, shape);
            let operand = Operand { matrix: w.as_ref(), shape };
            let want = (1.0 / n as f64) * (&w * &symmetric * w.transpose());
            let what = format!("{n} {shape:?}");
            let start = Mat::from_fn(n, n, |i, j| if i >= j { symmetric[(i, j)] } else { f64::NAN });
            let (mut whole, mut room) = (start.clone(), normals.mat(n, n));
            congruence(operand, whole.as_mut(), room.as_mut());
            assert_close((1.0 / n as f64 * &whole).as_ref(), want.as_ref(), false, &what);
            assert_eq!(whole, whole.transpose().to_owned(), "{what}: not symmetric");
            let mut part = start;
            half_congruence(operand, part.as_mut(), room.as_mut(), -2.0);
            let both = -0.5 / n as f64 * (&part + part.transpose());
            assert_close(both.as_ref(), want.as_ref(), false, &what);
        }
    }
}

#[test]
fn an_indefinite_matrix_is_reported_with_its_pivot() {
    for n in [5, 200] {
        let mut a = Mat::from_fn(n, n, |i, j| if i == j { 1.0 } else { 0.0 });
        a[(n - 2, n - 2)] = -1.0;
        let (mut copy, mut inverse) = (a.clone(), Mat::zeros(n, n));
        assert_eq!(Factorizer::new(n).cholesky(a.as_mut()), Err(NotPositiveDefinite { pivot: n - 2 }));
        let outcome = Factorizer::new(n).cholesky_with_inverse(copy.as_mut(), inverse.as_mut());
        assert_eq!(outcome, Err(NotPositiveDefinite { pivot: n - 2 }));
        let mut a = Mat::from_fn(n, n, |i, j| if i == j { 1.0 } else { 0.0 });
        a[(n - 1, 0)] = f64::NAN;
        assert!(Factorizer::new(n).cholesky(a.as_mut()).is_err(), "a NaN is not positive definite");
    }
}

#[test]
fn qr_factors_reproduce_the_gram_matrix() {
    for (m, n) in [(0, 4), (3, 7), (7, 7), (50, 20), (150, 150)] {
        let a = Normals::new(3).mat(m, n);
        let r = qr_factor(a.clone());
        assert_eq!(r.shape(), (n, n));
        assert!((0..n).all(|j| (j + 1..n).all(|i| r[(i, j)] == 0.0)), "upper triangular");
        assert_close((r.transpose() * &r).as_ref(), (a.transpose() * &a).as_ref(), false, "RᵀR");
    }
}
