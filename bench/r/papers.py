"""Figures that the two papers print, to stand beside ours.

DLS'14: Kotthaus, Korb, Engel, Marwedel: Dynamic page sharing optimization for the R language.
SAC'16: Korb, Kotthaus, Marwedel: mmapcopy: efficient memory footprint reduction using application knowledge. Its two figures have no
numbers on their bars: only what its text says, or what follows from it by subtraction, is here.
"""

# DLS'14 tables 3 and 4: peak and average memory in MB (standard, page sharing), zero pages found, seconds (standard, page
# sharing), content checks.
DLS = {
    "b25-1": (296.2, 228.1, 259.6, 192.2, 13, 69.3, 69.8, 10),
    "b25-2": (131.1, 131.4, 128.8, 128.0, 13, 61.6, 62.0, 58),
    "b25-3": (197.2, 164.8, 157.7, 112.6, 37919, 57.2, 58.4, 23),
    "b25-4": (134.2, 119.7, 127.2, 114.6, 194892, 60.2, 70.3, 1045),
    "glmnet": (354.9, 332.8, 249.5, 246.0, 46877, 59.3, 64.0, 156),
    "ada": (187.2, 170.1, 156.0, 126.2, 2031992, 9874.3, 10055.7, 12113),
    "gbm": (191.5, 193.2, 147.7, 136.0, 464, 160.4, 168.0, 287),
    "kknn": (316.5, 287.6, 274.0, 231.0, 421, 2030.8, 2063.6, 486),
    "lda": (216.2, 208.2, 184.8, 175.1, 20447, 86.5, 98.1, 334),
    "logreg": (213.0, 186.7, 184.7, 162.8, 955, 82.8, 89.6, 280),
    "lssvm": (1365.1, 631.0, 820.2, 381.1, 3972699, 530.5, 601.2, 1002),
    "naiveBayes": (143.6, 126.2, 80.8, 81.3, 78, 1539.7, 1555.6, 31466),
    "randomForest": (565.5, 520.4, 390.8, 242.7, 1130650, 4107.1, 4135.5, 224),
    "rda": (254.1, 227.7, 197.0, 177.3, 707, 7617.8, 7871.8, 11849),
    "rpart": (144.5, 125.8, 130.7, 103.3, 56214, 61.5, 64.2, 304),
}
DLS_MEANS = {"peak": 0.864, "average": 0.820, "time": 1.053}

# Table 5: peak and average MB (standard, page sharing), seconds (standard, page sharing), speed-up and its interval.
DLS_TABLE_5 = {
    ("logreg", "short"): (1228.2, 1094.8, 965.7, 789.6, 6395.5, 5785.6, 1.105, 1.071, 1.144),
    ("logreg", "enough"): (1228.2, 1094.8, 967.8, 823.2, 579.8, 598.5, 0.969, 0.967, 0.971),
    ("lssvm", "short"): (1365.1, 631.1, 970.0, 381.3, 3080.3, 593.8, 5.188, 5.029, 5.350),
    ("lssvm", "enough"): (1365.1, 631.0, 820.2, 381.1, 530.5, 601.2, 0.882, 0.880, 0.885),
}

# Figure 11: what the text says of the running time, and table 3's peak; at 1 MB it only says that the peak is slightly above plain's.
DLS_FIGURE_11 = {("8K", "wall"): 1.084, ("8K", "peak"): 0.877, ("16K", "wall"): 1.084}
DLS_FIGURE_11_TEXT = {"8K": "time 1.084, peak 0.877", "16K": "time 1.084", "1M": "peak slightly above 1"}

# SAC'16, by our names of the configurations: geometric means over 14 benchmarks, and the single figures in the text.
SAC_MEMORY = {"direct": 0.747, "ksm": 0.674, "ksm-aggressive": 0.601, "share": 0.646}
SAC_SINGLE = {("b25-1", "ksm"): 0.949, ("b25-1", "share"): 0.750, ("ada", "ksm"): 0.695, ("ada", "share"): 0.574}
SAC_TIME = {"direct": 1.065, "share": 1.036, "ksm": 1.070}
SAC_KSMD = {"ksm": 0.067, "ksm-aggressive": 0.402}
