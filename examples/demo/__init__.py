"""The main job of kvstow, shown and checked in seven steps: `python -m examples.demo`.

Read `story` first; `engines` and `daemon` are the processes it plays with, `report` keeps what was
claimed and measured.
"""
