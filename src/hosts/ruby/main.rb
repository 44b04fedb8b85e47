# Runs spooler functions for a worker of spoold, which starts this program and communicates over descriptors 3 to 6.
require_relative 'spoold_host/wire'
require_relative 'spoold_host/process'
require_relative 'spoold_host/output'
require_relative 'spoold_host/loop'
require_relative 'spoold_host/loader'
require_relative 'spoold_host/locks'
require_relative 'uwsgi'

wire = SpooldHost::Wire.new
settings = wire.read_settings
SpooldHost.prepare_process(wire)
tasks = SpooldHost::Loop.new(wire, settings, SpooldHost::Output.new(wire))
UWSGI.start(wire, settings, tasks)
tasks.serve if SpooldHost.load(wire, settings, tasks)
