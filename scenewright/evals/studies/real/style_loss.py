"""The contrastive objective of the style scorer.

CLIP's own objective pairs every picture of a batch with a text of its own, and takes all other
texts for wrong. With one text a class that would call a picture's own text wrong for every
neighbour of its class. So each text stands once, and all pictures of its class are its positives.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def style_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Mean of both directions of the contrast.

    ``logits``: (pictures, texts) scaled cosines, ``classes``: (pictures,) number of each picture's
    text. Picture to text: cross-entropy over all texts. Text to picture: for each text with
    pictures in the batch, the cross-entropy between its softmax over the batch's pictures and an
    equal share for each picture of its class (the positives outside of the logarithm, as Khosla et
    al., 2020, Equation 2). With one picture a class this is CLIP's objective. A text without
    pictures is a wrong answer for them and asks nothing itself.
    """
    to_text = functional.cross_entropy(logits, classes)
    own = functional.one_hot(classes, logits.shape[1]).to(logits.dtype)
    count = own.sum(0)
    there = count > 0
    shares = own[:, there] / count[there]
    to_picture = -(shares * logits[:, there].log_softmax(0)).sum(0).mean()
    return (to_text + to_picture) / 2


def batches(classes: list[int], batch: int, seed: int, epoch: int) -> list[list[int]]:
    """The places of all pictures once, in batches of ``batch``, in an order drawn for ``epoch``.

    ``classes`` of the pictures. Each class is shuffled and spread evenly over the epoch, so that
    batches hold the classes as the set does; a last one that is smaller is kept.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    places: list[tuple[float, float, int]] = []
    for name in sorted(set(classes)):
        inside = [at for at, found in enumerate(classes) if found == name]
        order = torch.randperm(len(inside), generator=generator).tolist()
        ties = torch.rand(len(inside), generator=generator).tolist()
        places += [
            ((rank + 0.5) / len(inside), ties[rank], inside[at]) for rank, at in enumerate(order)
        ]
    drawn = [at for _, _, at in sorted(places)]
    return [drawn[start : start + batch] for start in range(0, len(drawn), batch)]
