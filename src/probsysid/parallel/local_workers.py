"""A script: a Dask scheduler and workers on this machine, until standard input ends.

`python local_workers.py 4` prints the scheduler's address.  Everything listens on loopback only.  The workers are
children of this process and end with it; it ends with the process that started it, even if that is killed.
"""

import asyncio
import logging
import signal
import sys

SETTINGS = {
    "distributed.worker.memory.terminate": False,  # as much as threads would take
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.preload": ["probsysid"],
    # every idle process would take 3 % of a core otherwise
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.system-monitor.interval": "2s",
}


async def serve(workers: int) -> None:
    """Start, print the address, and wait for the end of standard input."""
    from distributed import LocalCluster

    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        asynchronous=True,
    )
    async with cluster:
        print(cluster.scheduler_address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    """Run until standard input ends; Ctrl-C is for the process that started this one."""
    import dask

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    dask.config.set(SETTINGS)
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
