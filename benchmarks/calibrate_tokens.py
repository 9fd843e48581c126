"""Measure the token estimator against a real tokenizer, kind of text by kind of text.

    python benchmarks/calibrate_tokens.py FOLDER COUNTS.json

FOLDER holds texts named KIND-NAME.txt, COUNTS.json the true count of each: {"KIND-NAME.txt": 123}.
Any tokenizer may have counted. For o200k_base, with nothing fetched but one npm package:

    npm install gpt-tokenizer
    node -e 'const fs = require("fs"), dir = process.argv[1];
      const { encode } = require("gpt-tokenizer/cjs/encoding/o200k_base");
      const names = fs.readdirSync(dir).filter((name) => name.endsWith(".txt"));
      const count = (name) => encode(fs.readFileSync(dir + "/" + name, "utf8")).length;
      console.log(JSON.stringify(Object.fromEntries(names.map((n) => [n, count(n)])), null, 2));
    ' FOLDER > COUNTS.json

The texts of the tests are such a folder: tests/text/token_samples, with its counts.json.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from commonbrain.text.tokens import estimate, upper_bound


@dataclass(slots=True)
class Tally:
    """What the texts of one kind add up to."""

    size: int = 0
    true: int = 0
    estimated: int = 0
    above_bound: int = 0
    worst: float = 1.0
    seconds: float = 0.0

    def add(self, text: str, true: int) -> None:
        """Count one text in."""
        start = time.perf_counter()
        estimated = estimate(text)
        self.seconds += time.perf_counter() - start
        self.size += len(text.encode())
        self.true += true
        self.estimated += estimated
        self.above_bound += true > upper_bound(text)
        self.worst = max(self.worst, true / max(1, estimated))

    def row(self, kind: str) -> str:
        """Return the tally as one line of the table."""
        error = self.estimated / max(1, self.true) - 1
        speed = self.size / 1e6 / max(1e-9, self.seconds)
        return (
            f"{kind:14}{self.true:10}{self.estimated:10}{error:+8.1%}"
            f"{self.worst:9.2f}{self.above_bound:7}{speed:8.1f}"
        )


def tally(texts: Iterable[tuple[str, str, int]]) -> dict[str, Tally]:
    """Add up (kind, text, true count) by kind."""
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    for kind, text, true in texts:
        tallies[kind].add(text, true)
    return tallies


def main() -> None:
    """Read the texts and their counts and print the table."""
    parser = argparse.ArgumentParser(description="Measure the token estimator.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("counts", type=Path)
    arguments = parser.parse_args()
    counts: dict[str, int] = json.loads(arguments.counts.read_text(encoding="utf-8"))
    texts = (
        (name.rpartition("-")[0], (arguments.folder / name).read_bytes().decode(), true)
        for name, true in counts.items()
    )
    print("kind                true estimated   error   worst  above    MB/s")
    for kind, sums in sorted(tally(texts).items()):
        print(sums.row(kind))


if __name__ == "__main__":
    main()
