require 'fcntl'
require 'rbconfig'

# This process: it dies with its worker, and leaves signals to the worker.
module SpooldHost
  # Linux; not in Fcntl
  F_SETOWN = 8
  F_SETSIG = 10
  O_ASYNC = 0o20000
  SIGKILL = 9

  # The number of the system call prctl, by processor.
  PRCTL = { 'x86_64' => 157, 'aarch64' => 167 }.freeze
  PR_SET_PDEATHSIG = 1

  module_function

  def prepare_process(wire)
    die_with_worker(wire.lifeline)
    # Terminals and init systems signal every process, but the worker decides. The handlers are blocks, because every program
    # that a task starts would inherit IGNORE.
    %w[INT TERM HUP USR1 USR2 ALRM TSTP].each { |name| Signal.trap(name) {} }
    $stdout.sync = true
  end

  # Guards the handlers of signals that are set from now on. A handler runs in the main thread, between any two steps. An
  # exception in it may end user code, but not the host's own work: then the block gets it.
  def guard_signals(&blame)
    pid = Process.pid
    set = Signal.method(:trap)
    guarded = lambda do |handler|
      proc do |number|
        handler.call(number)
      rescue SystemExit
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- a time limit may raise any exception
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

  # Runs user code. `users_run?` looks for this method on the stack.
  def users = yield

  def users_run? = caller_locations.any? { |frame| frame.path == __FILE__ && frame.base_label == 'users' }

  # The kernel sends SIGKILL when the other end of the lifeline closes, whatever this process is doing.
  def die_with_worker(lifeline)
    return unless RUBY_PLATFORM.include?('linux') # elsewhere the end of the tasks' stream tells of the worker's end

    lifeline.fcntl(F_SETOWN, Process.pid)
    lifeline.fcntl(F_SETSIG, SIGKILL)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) | O_ASYNC)
    send_at_death_of_worker(SIGKILL)
  end

  # Asks the kernel for a signal at the worker's death, 0: for none. It arrives even if a task has closed the lifeline; without
  # it, the task would go on here while it runs elsewhere.
  def send_at_death_of_worker(signal)
    number = PRCTL[RbConfig::CONFIG['host_cpu']] if RUBY_PLATFORM.include?('linux')
    syscall(number, PR_SET_PDEATHSIG, signal, 0, 0, 0) if number
  rescue SystemCallError, NotImplementedError
    # a system that forbids the call: the lifeline has to do
  end

  # Lets this process outlive its worker: the worker exits regularly, so this process has time to exit, too.
  def live_on(lifeline)
    lifeline.fcntl(Fcntl::F_SETFL, lifeline.fcntl(Fcntl::F_GETFL) & ~O_ASYNC)
    send_at_death_of_worker(0)
  end
end
