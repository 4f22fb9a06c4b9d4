"""The paper's words as numbers, and its names."""

# The paper's words as numbers, where it gives none itself.
THETA = 0.08  #: the default θmax, Table II
ALIKE = 1.10  #: "the same size", "stable": within a tenth
ABOUT = 1.25  #: "almost", "around", "similarly", "catches", "acts as": within a quarter
MUCH = 1.5  #: "much lower", "much larger", "jumps"; "a little" is less than that
GREATLY = 2.0  #: "by a large margin", "decreases greatly", "drastically", "a poor option"
MAGNITUDE = 10.0  #: "by an order of magnitude"
GROWS = 0.8  #: the rank correlation from which on something "grows"

#: Claims on Mixed are judged by Algorithm 4 as printed; ours stands beside it in the figures.
MIXED, OURS = "mixed-literal", "mixed"
MIN_TABLE, MIN_MIG, BRUTE_FORCE, READJ = "min-table", "min-mig", "mixed-bf", "readj"
TIME, COST, TABLE = "generation_ms", "migration_cost", "table_size"
