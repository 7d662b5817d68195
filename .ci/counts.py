"""Print the sum of pytest's closing lines in a log: `counts.py LOG SECONDS` → `==== 5120 passed, 12 skipped in 812.00s ====`."""

import re
import sys
from collections import Counter
from pathlib import Path

WORDS = "failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error"
CLOSING = re.compile(rf"^=*\s*((?:\d+ (?:{'|'.join(WORDS)})s?(?:, )?)+) in [\d.]+s", re.M)

path, seconds = sys.argv[1:]
total: Counter[str] = Counter()
for counts in CLOSING.findall(re.sub(r"\x1b\[[\d;]*m", "", Path(path).read_text(errors="replace"))):
    for part in counts.split(", "):
        number, word = part.split()
        total[word.rstrip("s") if word.startswith(("error", "warning")) else word] += int(number)
# What one run deselects, the other one runs or leaves out on purpose: the sum would say nothing.
del total["deselected"]
if not total:
    sys.exit("no closing line of pytest was found")
shown = ", ".join(f"{total[word]} {word}" for word in WORDS if total[word])
print(f"{'=' * 10} {shown} in {float(seconds):.2f}s {'=' * 10}")
