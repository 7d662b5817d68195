"""Finding tools by what an agent wants to do.

numpy runs in the process of the search model only. Its matrices are small: a second BLAS thread only spins, and on a
busy machine makes a query of a few milliseconds take hundreds. So one thread is set before numpy can be imported.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
