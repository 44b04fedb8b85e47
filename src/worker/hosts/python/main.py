"""Runs spooler functions for a worker of spoold, which starts this program and speaks over descriptors 3 to 6."""

import os
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))

import spoold_host.process as process
from spoold_host.wire import Wire

wire = Wire()
settings = wire.read_settings()
process.prepare()

import spoold_host.loader as loader
from spoold_host.loop import Loop

loop = Loop(wire, settings)
if loader.load(wire, settings, loop):
    loop.serve()
