require 'etc'
require_relative 'library/spoold/uwsgi_module'

# The module UWSGI for spooler code (plugins/rack/rack_api.c), implemented on top of spoold.
module UWSGI
  OPT = {} # rubocop:disable Style/MutableConstant -- filled by start

  @rpcs = {}
  # False while code is loaded: uWSGI loads code in its master, and forks the spoolers from it.
  @forked = false

  class << self
    def start(wire, settings, tasks)
      @wire = wire
      @tasks = tasks
      @locks = SpooldHost::Locks.new(settings['spooler'].first)
      @master = settings['masterpid'].first.to_i
      settings.fetch('opt', []).each_slice(2) { |name, value| add_option(name, value) unless NOT_HERE.include?(name) }
      const_set(:PIDFILE, OPT['pidfile']) if OPT.key?('pidfile')
    end

    def fork!
      @forked = true
    end

    # -- tasks

    def spool(task)
      check(task, Hash)
      body = task['body']
      rest = body.is_a?(String) ? task.except('body') : task
      pairs = rest.flat_map do |key, value|
        raise 'spool hash must contains only strings' unless key.is_a?(String)

        [key, value.to_s]
      end
      pairs.push('body', body) if body.is_a?(String)
      task.delete('body') if body.is_a?(String) && !task.frozen? # uWSGI also takes it out of a frozen one
      ask(@forked ? 'spool' : 'spool-while-loading', *pairs).first
    end
    alias send_to_spooler spool

    def i_am_the_spooler = @forked

    # -- the process

    def masterpid = @master
    def worker_id = 0
    def request_id = 0

    # Returns the resident and the virtual size of this process, in bytes.
    def mem
      File.read('/proc/self/statm').split.first(2).reverse.map { |pages| pages.to_i * Etc.sysconf(Etc::SC_PAGESIZE) }
    end

    def set_user_harakiri(seconds)
      check(seconds, Integer)
      ask('harakiri', seconds)
      nil
    end

    def lock(number = 0)
      @locks.lock(check(number, Integer))
      nil
    end

    def unlock(number = 0)
      @locks.unlock(check(number, Integer))
      nil
    end

    def mule_msg(*) = raise('no mule configured')
    def mule_get_msg(*) = raise('you can receive mule messages only in a mule !!!')

    # -- functions by name, for modules that also serve a web application. They cannot be called from outside

    def register_rpc(name, function, _arity = 0)
      check(name, String)
      @rpcs[name] = function
      true
    end

    # -- signals

    def register_signal(number, target, function)
      check(target, String)
      ask('register-signal', signal_number(number), target)
      @tasks.signals[number] = function
      true
    end

    def signal_registered(number) = @tasks.signals.key?(number)

    def signal(number, node = nil)
      return signal_node(number, node) if node

      ask('signal', signal_number(number))
      true
    end

    def add_timer(number, seconds) = add('timer', number, check(seconds, Integer) * 1000, 0)
    def add_rb_timer(number, seconds, iterations = 0) = add('timer', number, check(seconds, Integer) * 1000, iterations)

    def add_cron(number, minute, hour, day, month, week)
      add('cron', number, *[minute, hour, day, month, week].each { |field| check(field, Integer) })
    end

    def add_file_monitor(number, path) = add('file-monitor', number, check(path, String))

    # Functions that only report something. There are no requests, alarms or metrics here, so they do nothing.
    SILENT = %i[alarm metric_dec metric_div metric_inc metric_mul metric_set set_warning_message].freeze
    private_constant :SILENT

    # Reports functions that are not available here, such as those for requests and websockets.
    def method_missing(name, *)
      unless SILENT.include?(name)
        raise NoMethodError, "UWSGI.#{name} is not there under spoold: docs/hosts.md lists what is"
      end

      ask('warn', "UWSGI.#{name} does nothing under spoold")
      nil
    end

    def respond_to_missing?(name, *) = SILENT.include?(name)

    private

    def ask(name, *values)
      @wire.call(name, *values.map { |value| value.to_s.b })
    rescue SpooldHost::CallError => e
      raise e.message
    end

    def add(name, number, *values)
      ask(name, signal_number(number), *values)
      true
    end

    def signal_node(number, address)
      # the abstract names of uWSGI and spoold end with a NUL
      path = address.start_with?('@') ? "\0#{address[1..]}\0" : address
      peer = address.include?(':') ? TCPSocket.new(*address.split(':')) : UNIXSocket.new(path)
      peer.write([110, 0, 0, signal_number(number)].pack('C4'))
      accepted = peer.read(4)&.end_with?("\1")
      accepted || raise("node #{address} rejected signal #{number}")
    rescue SystemCallError, SocketError
      raise "unable to deliver signal #{number} to node #{address}"
    ensure
      peer&.close
    end

    # Adds an option to OPT. The value is an Array if the option was given more than once.
    def add_option(name, value)
      OPT[name] = OPT.key?(name) ? [*OPT[name], value] : value
    end
  end
end

require_relative 'spoold_host/cache'

# Makes the functions module functions, as in uWSGI, so that `include UWSGI` includes them.
UWSGI.singleton_methods(false).each do |name|
  UWSGI.define_method(name) { |*arguments| UWSGI.public_send(name, *arguments) }
  UWSGI.send(:private, name)
end
