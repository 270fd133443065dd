"""The name of a process: the same from inside and from outside, and another for another one."""

import subprocess
import sys
from pathlib import Path

from kvstow.client.process import this_process

SAY = (
    "import sys; from kvstow.client.process import this_process; "
    "sys.stdout.buffer.write(this_process().SerializeToString())"
)


def test_a_process_is_named_by_its_id_its_namespace_and_its_start() -> None:
    mine = this_process()
    assert mine == this_process()
    assert mine.pid_namespace == Path("/proc/self/ns/pid").stat().st_ino
    said = subprocess.run([sys.executable, "-c", SAY], capture_output=True, check=True).stdout
    other = mine.FromString(said)
    assert other.pid != mine.pid
    assert other.pid_namespace == mine.pid_namespace
    assert other.start_time_ticks > mine.start_time_ticks


def test_a_name_with_spaces_and_parentheses_does_not_confuse_it() -> None:
    rename = "open('/proc/self/comm', 'w').write(') 1 2 ('); "
    plain, odd = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        for program in (SAY, rename + SAY)
    )
    named = this_process()
    named.ParseFromString(odd)
    assert named.start_time_ticks >= this_process().FromString(plain).start_time_ticks
