require 'fcntl'

# What kind of process this is: it dies with its worker, and leaves signals to it.
module SpooldHost
  # Linux; Fcntl has none of them
  F_SETOWN = 8
  F_SETSIG = 10
  O_ASYNC = 0o20000
  SIGKILL = 9

  module_function

  def prepare_process(wire)
    die_with_worker(wire.lifeline)
    # A terminal and an init system signal everybody; it is the worker that decides. Blocks, because what is ignored
    # stays so in every program that a task starts.
    %w[INT TERM HUP USR1 USR2 ALRM TSTP].each { |name| Signal.trap(name) {} }
    $stdout.sync = true
  end

  # The kernel sends SIGKILL when the other end of the lifeline is closed, whatever this process does then.
  def die_with_worker(lifeline)
    return unless RUBY_PLATFORM.include?('linux') # elsewhere the end of its tasks tells it

    lifeline.fcntl(F_SETOWN, Process.pid)
    lifeline.fcntl(F_SETSIG, SIGKILL)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) | O_ASYNC)
  end

  # The worker ends in good order: there is time to leave.
  def live_on(lifeline)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) & ~O_ASYNC)
  end
end
