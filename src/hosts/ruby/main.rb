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
begin
  output = SpooldHost::Output.new(wire)
rescue Errno::EPIPE
  exit # the worker has ended, so this process is not needed
end
tasks = SpooldHost::Loop.new(wire, settings, output)
UWSGI.start(wire, settings, tasks)
SpooldHost.guard_signals do |error|
  STDERR.write("a signal handler raised an exception outside any task:\n#{SpooldHost.explain(error)}\n")
  output.mark(SpooldHost::Output::NO_TASK)
end
tasks.serve if SpooldHost.users { SpooldHost.load(wire, settings, tasks) }
