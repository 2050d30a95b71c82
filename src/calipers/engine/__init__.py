# SPDX-License-Identifier: Apache-2.0
"""How long work runs: over fixed items, on any executor, in order, and again after an interruption.

- `work.in_order` is the seam: a function over items, its results in the order of the items. Items
  are fixed by the data, never by the number of workers, so the result has the same bits on one
  thread, on many, on processes and on a cluster.
- `processes.Processes` is an executor of processes that outlives its workers; `cluster` gives that
  of a Dask cluster. Any other `concurrent.futures.Executor` works too.
- `signals` says what Ctrl-C and SIGTERM do to a run.
- `store.Store` keeps finished results on disk. A run that was stopped goes on from them, parts of
  a run (``--part 2/8``) write them, and `calipers merge` reads those of all parts.

Evaluation, maps and stability use them; nothing here knows what the work is.
"""
