"""Fits GPflow's SVGP to one split, q(u) by natural gradients and the rest by Adam, and prints its scores."""

import argparse

import numpy as np
from protocol import (
    add_common_arguments,
    add_epoch_arguments,
    emit_fit,
    fit_epochs,
    gaussian_scores,
    gpflow_kernel,
    read_split,
    start_gpflow,
)


def build(gpflow, z, num_data, kernel="rbf", likelihood="gaussian"):
    """Returns a whitened zero-mean SVGP in GPflow's precision, with lengthscales sqrt(D), variance 1, noise 0.1."""
    likelihoods = {
        "gaussian": lambda: gpflow.likelihoods.Gaussian(0.1),
        "probit": gpflow.likelihoods.Bernoulli,
        "poisson": gpflow.likelihoods.Poisson,
    }
    return gpflow.models.SVGP(
        gpflow_kernel(gpflow, kernel, z.shape[1]),
        likelihoods[likelihood](),
        inducing_variable=z,
        whiten=True,
        num_data=num_data,
    )


def training_step(gpflow, tf, model, lr=0.01, gamma=None):
    """Returns a function to compile: one step of Adam on a mini-batch, after a natural step for q(u) if `gamma` is given."""
    if gamma is not None:
        natural = gpflow.optimizers.NaturalGradient(gamma)
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
    adam = gpflow.keras.tf_keras.optimizers.Adam(lr)
    adam.build(model.trainable_variables)

    def step(data):
        def loss():
            return model.training_loss(data)

        if gamma is not None:
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(model.trainable_variables)
            value = loss()
        gradients = tape.gradient(value, model.trainable_variables)
        adam.apply_gradients(zip(gradients, model.trainable_variables))
        return value

    return step


class Training:
    """A model trained by epochs, its bound and its scores."""

    def __init__(self, split, z, options, gpflow, tf):
        self.split, self.batch = split, options.batch
        self.x, self.y = tf.constant(split.x), tf.constant(split.y)
        self.random = np.random.default_rng(options.seed)
        self.model = build(gpflow, z, len(split.x), options.kernel)
        # At the start q(u) is far from its optimum, so long natural steps could make its covariance invalid.
        self.gammas = iter(np.geomspace(1e-4, options.gamma, 10))
        self.gamma = tf.Variable(options.gamma, dtype=self.x.dtype, trainable=False)
        step = training_step(gpflow, tf, self.model, options.lr, self.gamma)

        # The shapes are open, so that the last, smaller mini-batch is not traced separately.
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def compiled(rows):
            return step((tf.gather(self.x, rows), tf.gather(self.y, rows)))

        # Tracing takes seconds: it counts in `seconds_total`, but not in `seconds_train`, which starts later.
        compiled.get_concrete_function()
        self.step = compiled
        inputs = tf.TensorSpec([None, split.x.shape[1]], self.x.dtype)
        self.predict_f = tf.function(self.model.predict_f, input_signature=[inputs])

    def parts(self, *arrays):
        """Yields the mini-batches of arrays in the order of the rows."""
        for start in range(0, len(arrays[0]), self.batch):
            yield tuple(array[start : start + self.batch] for array in arrays)

    def epoch(self):
        """Takes one step for each mini-batch of a new permutation; returns the number of steps."""
        steps = 0
        for (rows,) in self.parts(self.random.permutation(len(self.x))):
            self.gamma.assign(next(self.gammas, self.gamma))
            loss = self.step(rows)
            steps += 1
        if not np.isfinite(loss):
            raise FloatingPointError(f"the loss is {float(loss)}")
        return steps

    def elbo(self):
        """Returns the evidence lower bound of all the data (sum, not mean), with the current parameters."""
        likelihood, bound = self.model.likelihood, -float(self.model.prior_kl())
        for x, y in self.parts(self.x, self.y):
            bound += likelihood.variational_expectations(x, *self.predict_f(x), y).numpy().sum()
        return float(bound)

    def scores(self):
        """Returns the scores of the test part, with the current parameters."""
        likelihood = self.model.likelihood
        inputs = self.parts(self.split.x_test)
        parts = [likelihood.predict_mean_and_var(x, *self.predict_f(x)) for (x,) in inputs]
        mean, variance = (np.concatenate(values) for values in zip(*parts))
        return gaussian_scores(self.split, mean, variance)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    add_epoch_arguments(parser, epochs=30)
    parser.add_argument("--gamma", type=float, default=0.1, help="natural step size after ten steps")
    options = parser.parse_args()
    gpflow, tf = start_gpflow(options)
    split = read_split(options.train, options.test, options.target)
    record = {"library": f"gpflow {gpflow.__version__}", "gamma": options.gamma}

    def fit():
        return fit_epochs(split, options, lambda z: Training(split, z, options, gpflow, tf))

    # A failed Cholesky factorisation may raise this error.
    emit_fit(record, split, options, fit, (tf.errors.InvalidArgumentError,))


if __name__ == "__main__":
    main()
