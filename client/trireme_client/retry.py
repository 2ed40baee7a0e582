"""Whether and when a failed call is sent again. Sleeps for nobody: it only says how long to wait.

Every call of this client is an inference of a stateless model or a question about the server, so sending one twice
changes nothing. Even so only `ServerUnavailable` is tried again: after a timeout there is no time left, and a
refused input or a failed model would refuse and fail again.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with full jitter: the n-th wait is drawn between 0 and `first_s * 2**(n - 1)`.

    Method: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    retries: int = 4  # of one request
    first_s: float = 0.2
    longest_s: float = 2.0
    budget: float = 20  # retries of all requests of a client together, see RetryBudget

    def delay_s(self, retry: int) -> float:
        """How long to wait before retry number `retry`, counted from 1."""
        return random.uniform(0, min(self.longest_s, self.first_s * 2 ** (retry - 1)))


class RetryBudget:
    """Keeps the retries of a client from adding to the load of a server that is down.

    A retry costs a token; a success brings a tenth of one back, up to the number it began with. After the retry
    throttling of gRPC (proposal A6). A race between threads makes the count a little wrong, and no more.
    """

    def __init__(self, tokens: float) -> None:
        self._full = tokens
        self._tokens = tokens

    def spend(self) -> bool:
        """Take a token for one retry; False if there is none."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def refund(self) -> None:
        self._tokens = min(self._full, self._tokens + 0.1)
