require 'fcntl'
require 'rbconfig'

# The process: it dies with its worker, and leaves signals to it.
module SpooldHost
  # Linux; not in Fcntl
  F_SETOWN = 8
  F_SETSIG = 10
  O_ASYNC = 0o20000
  SIGKILL = 9

  # The number of prctl, by processor.
  PRCTL = { 'x86_64' => 157, 'aarch64' => 167 }.freeze
  PR_SET_PDEATHSIG = 1

  module_function

  def prepare_process(wire)
    die_with_worker(wire.lifeline)
    # Terminals and init systems signal every process; the worker decides. Blocks, because IGNORE would be inherited by every
    # program that a task starts.
    %w[INT TERM HUP USR1 USR2 ALRM TSTP].each { |name| Signal.trap(name) {} }
    $stdout.sync = true
  end

  # From now on what the handler of a signal raises, in the main thread between any two steps, ends code of users, and no work of the
  # host: the block is told that.
  def guard_signals(&blame)
    pid = Process.pid
    set = Signal.method(:trap)
    guarded = lambda do |handler|
      proc do |number|
        handler.call(number)
      rescue SystemExit
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- a time limit may be any
        raise if Process.pid != pid || users_run?

        blame.call(e)
      end.tap { |stands_for| stands_for.define_singleton_method(:handler) { handler } }
    end
    trap = lambda do |signal, *command, &block|
      handler = command.empty? ? block : command.first
      before = set.call(signal, *(handler.respond_to?(:call) ? [guarded.call(handler)] : command))
      before.respond_to?(:handler) ? before.handler : before
    end
    [Signal, Kernel].each { |place| place.define_singleton_method(:trap, &trap) }
    Kernel.define_method(:trap, &trap)
    Kernel.send(:private, :trap)
  end

  # Runs code of users.
  def users = yield

  def users_run? = caller_locations.any? { |frame| frame.path == __FILE__ && frame.base_label == 'users' }

  # The kernel sends SIGKILL when the other end of the lifeline closes, whatever this process is doing.
  def die_with_worker(lifeline)
    return unless RUBY_PLATFORM.include?('linux') # elsewhere the end of its tasks tells it

    lifeline.fcntl(F_SETOWN, Process.pid)
    lifeline.fcntl(F_SETSIG, SIGKILL)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) | O_ASYNC)
    send_at_death_of_worker(SIGKILL)
  end

  # Also if a task has closed the lifeline: it would go on while it runs elsewhere.
  def send_at_death_of_worker(signal)
    number = PRCTL[RbConfig::CONFIG['host_cpu']] if RUBY_PLATFORM.include?('linux')
    syscall(number, PR_SET_PDEATHSIG, signal, 0, 0, 0) if number
  rescue SystemCallError, NotImplementedError
    # a system that forbids it: there is the lifeline
  end

  # The worker exits regularly, so there is time to exit, too.
  def live_on(lifeline)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) & ~O_ASYNC)
    send_at_death_of_worker(0)
  end
end
