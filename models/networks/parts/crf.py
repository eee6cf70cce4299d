"""Linear-chain conditional random field over packed sequences (Lafferty, McCallum, Pereira, 2001).

score(y) = start[y_1] + sum_t emission[t, y_t] + sum_t transition[y_t-1, y_t] + end[y_n]; p(y) = exp(score) / Z.

All sequences advance together, and one that has ended drops out. So time grows with the number of tokens times C^2, in
as many operations as the longest sequence has tokens. While a gradient is needed, memory grows with tokens times C^2
too.

Shape legend: T tokens laid end to end, S sequences, C tags.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from models.encoder.layout import Layout

UNLABELLED = -100
"""Tag of a token about which nothing is known."""


class ConditionalRandomField(nn.Module):
    """Transition scores between C tags, from the start and to the end of a sequence."""

    def __init__(self, num_tags: int) -> None:
        """All scores start at 0, so a tag first depends on its own emission alone."""
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))
        """Score of tag i followed by tag j, at [i, j]."""
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))

    def log_likelihood(self, emissions_TC: Tensor, tags_T: Tensor, layout: Layout) -> Tensor:
        """Return log p(tags), float32 (S,).

        If some tags are UNLABELLED, it is that of all tag sequences that agree with the others (Tsuboi et al., 2008).
        """
        emissions = emissions_TC.float()
        other = torch.arange(emissions.shape[1], device=tags_T.device) != tags_T[:, None]
        # -inf forbids every tag but the labelled one; unlabelled tokens keep all their emissions.
        agreeing = emissions.masked_fill(other & (tags_T != UNLABELLED)[:, None], -torch.inf)
        # Both sums in one pass over the tokens.
        twice = Layout.from_lengths(layout.lengths * 2).to(emissions.device)
        of_tags, of_all = self.log_partition(torch.cat([agreeing, emissions]), twice).chunk(2)
        return of_tags - of_all

    def log_partition(self, emissions_TC: Tensor, layout: Layout) -> Tensor:
        """Return the log of the sum of exp(score) over all tag sequences, float32 (S,)."""
        emissions = emissions_TC.float()
        order, counts = _by_length(layout)
        firsts = layout.firsts.long()[order]
        alpha_SC = self.start + emissions[firsts]
        for time, active in enumerate(counts[1:], start=1):
            # The longest sequences come first, so those that still run are the first `active` rows.
            reached = torch.logsumexp(alpha_SC[:active, :, None] + self.transitions, 1)
            reached = reached + emissions[firsts[:active] + time]
            alpha_SC = torch.cat([reached, alpha_SC[active:]])
        return torch.logsumexp(alpha_SC + self.end, 1)[torch.argsort(order)]

    @torch.no_grad()
    def viterbi(self, emissions_TC: Tensor, layout: Layout) -> Tensor:
        """Return the most probable tags, int64 (T,)."""
        emissions = emissions_TC.float()
        order, counts = _by_length(layout)
        firsts = layout.firsts.long()[order]
        best_SC = self.start + emissions[firsts]
        came_from: list[Tensor] = []
        for time, active in enumerate(counts[1:], start=1):
            reached, source = (best_SC[:active, :, None] + self.transitions).max(1)
            came_from.append(source)
            best_SC = torch.cat([reached + emissions[firsts[:active] + time], best_SC[active:]])
        tag_S = (best_SC + self.end).argmax(1)
        tags_T = torch.empty(layout.total, dtype=torch.int64, device=emissions.device)
        for time in range(len(counts) - 1, 0, -1):
            active = counts[time]
            tags_T[firsts[:active] + time] = tag_S[:active]
            tag_S = torch.cat([came_from[time - 1].gather(1, tag_S[:active, None])[:, 0], tag_S[active:]])
        tags_T[firsts] = tag_S
        return tags_T


def _by_length(layout: Layout) -> tuple[Tensor, list[int]]:
    """Order of sequences from longest to shortest, and how many of them have a token at each time."""
    lengths = torch.tensor(layout.lengths)
    order = torch.argsort(lengths, descending=True, stable=True)
    falling = [0, *sorted(layout.lengths)]
    counts: list[int] = []
    for ended, (shorter, longer) in enumerate(pairwise(falling)):
        counts += [len(layout.lengths) - ended] * (longer - shorter)
    return order.to(layout.offsets.device), counts
