"""What "Metis: A Smart Memory Allocator Using Historical Reclamation Information" (ICOOOLPS 2015) reports, and how else it can be read.

Table 2 has numbers. Of figures 5 to 10 only what the text says of them is here: the pictures have no numbers on them.
"""

# Table 2: average number of holes in the global heap, mark-sweep and METIS.
HOLES = {
    "compiler.compiler": (129.8, 35),
    "compiler.sunflow": (119.6, 38.5),
    "compress": (128.4, 33.67),
    "serial": (135.2, 44.8),
    "sunflow": (138.6, 39.8),
    "xml.transform": (133.6, 30.4),
    "xml.validation": (132.2, 42),
}
# Sections 6.1 to 6.5. Changes against mark-sweep without groups.
FRAGMENTATION_MEAN, FRAGMENTATION_BEST = -.489, -.79
GLOBAL_HOLES = -.70
HOLE_SIZE = .18
EFFICIENCY, SIGNIFICANCE = .83, .75

ANY = 1 << 20
# Other readings of sentences that can be read in more than one way: name, what it says, `simulate --readings`.
READINGS = {
    "several-regions": ("a group may have any number of region groups", {"metis": {"regions_per_group": ANY}}),
    "largest-graph": ("regions as large as the group's largest graph", {"metis": {"region_size": "largest-graph"}}),
    "both": ("both of these", {"metis": {"region_size": "largest-graph", "regions_per_group": ANY}}),
    "all-graphs": ("regions as large as all the group's graphs while profiling", {"metis": {"region_size": "all-graphs"}}),
    "when-full": ("the heap grows only when a request does not fit", {"growth": "when-nothing-fits"}),
    "occupied": ("the heap grows when more than .8 of it is occupied", {"growth": {"occupied-above": .8}}),
}
