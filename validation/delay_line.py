"""A cable with a delay between two network devices, for kernels whose `tc` has no `netem`.

python -m validation.delay_line OUTER INNER SECONDS

Makes two TAP devices and hands every packet of one to the other, later; ends with standard input.
"""

import asyncio
import fcntl
import os
import struct
import sys
from contextlib import suppress

TUNSETIFF, TAP_WITHOUT_HEADER = 0x400454CA, 0x0002 | 0x1000
LARGEST = 65_536


def tap(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), TAP_WITHOUT_HEADER))
    return device


async def serve(outer: str, inner: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    devices = tap(outer), tap(inner)

    def forward(source: int, sink: int) -> None:
        with suppress(OSError):  # nothing more to read, or the device is down
            while packet := os.read(source, LARGEST):
                loop.call_later(seconds, write, sink, packet)

    def write(sink: int, packet: bytes) -> None:
        with suppress(OSError):  # down, or its queue is full: a lost packet
            os.write(sink, packet)

    loop.add_reader(devices[0], forward, devices[0], devices[1])
    loop.add_reader(devices[1], forward, devices[1], devices[0])
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], float(sys.argv[3])))
