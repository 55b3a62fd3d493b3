"""Finding what was said before: passages, their words and their meaning, ranked and explained."""

import os


def import_numpy_on_one_thread() -> None:
    """Import numpy so that its matrix library makes no threads of its own.

    They wait by spinning: on busy cores a product of a millisecond takes a hundred. The variables
    are read only at import and are taken back, because child processes are none of our business.
    """
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    missing = [name for name in names if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        import numpy  # noqa: F401
    finally:
        for name in missing:
            del os.environ[name]
