"""What is measured: the workloads, the configurations, and what a stored result depends on."""

import os

from common import ROOT, digest

FOLDER = os.path.join(ROOT, "bench/r/workloads")
SCALES = ("small", "full", "tiny")

# name: (set, what it does, do we stand in for a package that Debian has not)
WORKLOADS = {
    "b25-1": ("one", "linear regression over a 3000 x 3000 matrix", False),
    "b25-2": ("one", "FFT of random values", False),
    "b25-3": ("one", "inverse of a random matrix", False),
    "b25-4": ("one", "greatest common divisors, recursive", False),
    "glmnet": ("one", "glmnet on a sparse matrix of 1000 columns", False),
    "ada": ("two", "boosting of classification trees", True),
    "gbm": ("two", "gradient boosting machine", False),
    "kknn": ("two", "kernel-weighted nearest neighbours", True),
    "lda": ("two", "linear discriminant analysis", False),
    "logreg": ("two", "logistic regression", False),
    "lssvm": ("two", "least-squares support vector machine", False),
    "naiveBayes": ("two", "naive Bayes", False),
    "randomForest": ("two", "random classification forest", False),
    "rda": ("two", "regularised discriminant analysis", True),
    "rpart": ("two", "recursive partitioning", False),
}
OURS = [name for name, (_, _, is_ours) in WORKLOADS.items() if is_ours]

PLAIN, CONTROL, TREATED, BASELINE = "plain", "plain#2", "auto", "baseline"
# In the order in which a round runs them, every second round in reverse: what the claims rest on comes first.
FIRST = (PLAIN, CONTROL, TREATED, "direct")
FROZEN = "auto freeze=auto"
CONFIGURATIONS = (*FIRST, FROZEN, "share", "ksm", "ksm-aggressive")
# Under strace each run makes as many system calls as the last; under ksm as many as under direct.
CALLS_CONFIGURATIONS = (PLAIN, "direct", "share", TREATED)
# Baselines hardly vary: so many of each workload are enough.
BASELINE_RUNS = 3

# Figure 11: the size threshold, under the papers' rules and under ours.
SWEEP_WORKLOAD = "logreg"
THRESHOLDS = ("8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M")
SWEEP_POLICIES = ("share", TREATED)


def policy_of(configuration):
    """The policy and the further options behind a configuration's name: "share threshold=8K", "plain#2"."""
    name, _, options = configuration.partition(" ")
    policy = name.partition("#")[0]
    return (PLAIN if policy == BASELINE else policy), options


def needs_root(configuration):
    return policy_of(configuration)[0].startswith("ksm")


def uses_library(configuration):
    return policy_of(configuration)[0] != PLAIN


def command(workload, scale, configuration):
    words = ["Rscript", os.path.join("bench/r/workloads", workload + ".R"), scale]
    return words + ["baseline"] if configuration == BASELINE else words


def script_hash(workload, folder=FOLDER):
    """A result is comparable as long as its script, and what the script reads, are the same."""
    names = [workload + ".R", "common.R"] + (["learners.R"] if workload in OURS else [])
    parts = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            parts.append(file.read())
    return digest(*parts)
