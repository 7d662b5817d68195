"""Finding tools by what somebody wants to do. `index.py` is the door.

Vectors and postings are small: a second BLAS thread only spins, and on a busy machine makes a query of a few
milliseconds take hundreds. So one thread is asked for before numpy is first loaded, unless somebody chose.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
