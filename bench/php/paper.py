"""Figures of "A Study of Memory Management for Web-based Applications on Multicore Processors" (PLDI 2009), for PHP 5.2 on eight Xeon cores.

Tables 3 and 4 have numbers. Figures 6, 8 and 9 have none on them: what the text says of them is here.
"""

WORKLOADS = ("MediaWiki (read only)", "MediaWiki (read/write)", "SugarCRM", "eZ Publish", "phpBB", "CakePHP", "SPECweb2005")
# Table 3: calls of malloc, free and realloc in a transaction, mean size of a malloc.
CALLS = dict(zip(WORKLOADS, ((151770, 129141, 6147, 62.1), (404983, 354775, 22371, 66.7), (276853, 225800, 3120, 49.3), (123019, 109856, 4646, 78.6),
                             (46965, 43267, 1003, 56.3), (99195, 82645, 3574, 68.6), (3277, 2383, 106, 175.6))))
# Table 4, Xeon: transactions a second of the default allocator, the region and DDmalloc, on one core and on eight.
SPEEDUPS = dict(zip(WORKLOADS, (((25.3, 156.6), (26.4, 145.7), (26.4, 167.9)), ((11.7, 79.6), (12.5, 59.7), (12.7, 85.5)),
                                ((19.4, 134.6), (20.8, 98.0), (21.1, 148.4)), ((28.5, 178.6), (31.8, 138.3), (32.2, 196.3)),
                                ((62.6, 402.4), (69.2, 393.5), (69.5, 447.2)), ((28.3, 191.6), (31.6, 185.7), (30.8, 206.6)),
                                ((188.6, 970.0), (197.3, 960.4), (194.3, 977.3)))))
BREAKDOWN = "In the paper (figure 6, CPU time) DDmalloc spends 56 % less on memory operations than PHP 5.2's allocator, at most 65 %; the region 85 % less, and more elsewhere."
MISSES = ("In the paper (figure 8, counters of eight cores) DDmalloc reduces misses of both levels and bus transactions; the region increases misses of the "
          "last level and bus transactions strongly, and those of the first hardly.")
MEMORY = "In the paper (figure 9) DDmalloc takes 24 % more than PHP 5.2's allocator on average; the region almost 3 times as much, 7 times at the worst."
