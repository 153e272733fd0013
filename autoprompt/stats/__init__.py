"""Is it better, or was it luck? Intervals and paired tests; pure functions, standard library only.

Every p-value is in [0, 1] and is the chance of so good a result if there were no difference. Scores are
numbers in [0, 1], higher is better. Random draws come from `seed` alone: the same input gives the same
number on every machine. Nothing here rounds but `p_text`, for people.

Where rows belong together, `groups` names the group of each row, None for a row alone: then whole groups are
what varies by chance. Only which rows share a name counts. Where no two do, it changes no number.
"""

from autoprompt.stats.aggregates import (
    aggregate_draws,
    aggregate_interval,
    draws_interval,
    macro_f1,
    permutation_aggregate,
)
from autoprompt.stats.groups import Groups, count_groups, difference, in_groups
from autoprompt.stats.intervals import (
    Interval,
    mean_interval,
    paired_difference_interval,
    paired_error,
    percentile_interval,
    student_interval,
    wilson_interval,
)
from autoprompt.stats.paired import (
    Alternative,
    combine_inverse_normal,
    many_to_one,
    mcnemar_exact,
    p_text,
    paired_test,
    rows_to_show,
    sign_flip_test,
)

__all__ = [
    "Alternative",
    "Groups",
    "Interval",
    "aggregate_draws",
    "aggregate_interval",
    "combine_inverse_normal",
    "count_groups",
    "difference",
    "many_to_one",
    "draws_interval",
    "in_groups",
    "macro_f1",
    "mcnemar_exact",
    "mean_interval",
    "p_text",
    "paired_difference_interval",
    "paired_error",
    "paired_test",
    "percentile_interval",
    "permutation_aggregate",
    "rows_to_show",
    "sign_flip_test",
    "student_interval",
    "wilson_interval",
]
