# frozen_string_literal: true

require 'json'
require_relative '../spool'

# The module UWSGI outside uWSGI: `require 'spoold/uwsgi'`, first in config.ru, under puma or any other server. What it stores, the daemon
# of SPOOLD_ENQUEUE_TO (a directory) or SPOOLD_INI (the ini that spoold runs) runs; what registers is left to that daemon. In a real uWSGI and
# in a worker of spoold it does nothing. docs/leaving-uwsgi.md explains it.
unless defined?(UWSGI) && UWSGI.respond_to?(:spool)
  module UWSGI
    VERSION = '2.0.31-spoold'
    SPOOL_OK = -2
    SPOOL_RETRY = -1
    SPOOL_IGNORE = 0
    HOSTNAME = Socket.gethostname.b
    NUMPROC = 1
    UNTOLD = 'it is not said where tasks go: set the environment variable SPOOLD_ENQUEUE_TO=/var/spool/app, or SPOOLD_INI=/etc/app.ini to the ini that spoold runs'
    # Options of processes that are not here: code that sees them would hand work to a process that is not there.
    NOT_HERE = %w[mule mules farm].freeze
    #: seconds, for the answer of a daemon
    PATIENCE = 5
    Place = Struct.new(:directory, :sync)
    private_constant :UNTOLD, :NOT_HERE, :PATIENCE, :Place

    @registered = {}
    @loaded_by = Process.pid

    class << self
      # -- tasks

      def spool(task)
        check(task, Hash)
        raise 'spool hash must contains only strings' unless task.each_key.all?(String)

        pairs = task.transform_values(&:to_s)
        body = task['body'].is_a?(String) ? pairs.delete('body') : ''
        at, priority = %w[at priority].map { |name| pairs.delete(name) }.map { |value| value unless value == '' }
        raise "at must be epoch seconds, got #{at.inspect}" unless at.nil? || /\A[0-9]+(\.[0-9]*)?\z/.match?(at)

        path = store(place_of(pairs['spooler']), pairs, at: at&.to_f, priority: priority, body: body)
        task.delete('body') if task['body'].is_a?(String)
        path
      end
      alias send_to_spooler spool

      def i_am_the_spooler = false

      # -- the process

      # Of the server: the process that loaded this before it forked, else the one above.
      def masterpid = Process.pid == @loaded_by ? Process.ppid.nonzero? || @loaded_by : @loaded_by
      def worker_id = Process.pid
      def mule_id = 0
      def logsize = 0
      def i_am_the_lord(_legion) = false
      def set_user_harakiri(_seconds) = nil

      def log(message)
        $stderr.write("#{check(message, String)}\n")
        nil
      end

      def setprocname(name)
        Process.setproctitle(check(name, String))
        nil
      end

      # -- what the daemon does

      def register_signal(number, _target, _function)
        @registered[signal_number(number)] = true
      end

      def signal_registered(number) = @registered.key?(number)
      def add_timer(number, _seconds) = signal_number(number) && true
      def add_rb_timer(number, _seconds, _iterations = 0) = signal_number(number) && true
      def add_cron(number, *_fields) = signal_number(number) && true
      def add_file_monitor(number, _path) = signal_number(number) && true
      def register_rpc(_name, _function, _arity = 0) = true

      # Over the control socket of the first spool that has a daemon.
      def signal(number)
        signal_number(number)
        places.each do |place|
          Dir.glob('control{,.[0-9]*}', base: "#{place.directory}/.spoold").sort.each do |name|
            return order("#{place.directory}/.spoold", name, number)
          rescue SystemCallError
            next # it is dead, or another user's
          end
        end
        raise "signal #{number} is not raised: this user reaches no daemon of #{places.map(&:directory).join(', ')}"
      end

      def method_missing(name, *)
        raise NoMethodError, "UWSGI.#{name} is not there outside uWSGI: docs/uwsgi-module.md says what to take instead"
      end

      def respond_to_missing?(*) = false

      # UWSGI::OPT, which is read when it is used.
      def const_missing(name)
        return super unless name == :OPT

        told
        const_set(:OPT, @options)
      end

      private

      def store(place, pairs, **options)
        check_reader(place.directory)
        Spool.spool(pairs, place.directory, sync: place.sync, **options)
      rescue ArgumentError, SystemCallError => e
        raise e.message
      end

      # A file has the mode 0600, so its daemon has to be its user; root stores for the owner of the spool.
      def check_reader(directory)
        state = "#{directory}/.spoold"
        daemon = File.stat(File.exist?(state) ? state : directory).uid
        return if [0, Process.euid].include?(daemon) || Process.euid.zero?

        raise "the daemon of #{directory} is the user #{daemon}, and cannot read what this one, #{Process.euid}, stores: let both be the same"
      end

      def place_of(name)
        return places.first if name.nil? || name.empty?

        found = places.find { |place| [name, File.exist?(name) ? File.realpath(name) : name].include?(place.directory) }
        found || raise("spooler must be one of #{places.map(&:directory).join(', ')}, got #{name.inspect}")
      end

      def places
        told
        @places
      end

      # What is said changes in tests.
      def told
        said = ENV.values_at('SPOOLD_ENQUEUE_TO', 'SPOOLD_INI').map { |value| value unless value.to_s.empty? }
        return if @places && @told_by == said

        directory, ini = said
        @places, @options = directory ? from_text(directory) : ini ? from_ini(ini) : raise(UNTOLD) # rubocop:disable Style/NestedTernaryOperator
        @told_by = said
      end

      def from_text(text)
        names = text.split(',').map { |entry| entry.strip.sub(%r{\A[^/=]*=}, '') }
        wrong = names.find { |name| !File.directory?(name) }
        raise "there is no spool directory #{wrong}: create it as the user of its daemon; Ruby stores in directories alone" if wrong

        [names.map { |name| Place.new(File.realpath(name), true) }, { 'spooler' => names.first }]
      end

      # `spoold config` resolves the ini as the daemon does.
      def from_ini(ini)
        require 'open3'
        program = [*ENV.fetch('PATH', '').split(':'), 'node_modules/.bin'].map { |path| File.join(path, 'spoold') }.find { |file| File.file?(file) && File.executable?(file) }
        raise 'the program spoold is neither in the PATH nor in ./node_modules/.bin: npm install -g spoold' unless program

        out, err, status = Open3.capture3({ 'SPOOLD_INI' => nil }, program, 'config', '--as-json', '--with-secrets', ini)
        raise "the configuration #{ini} cannot be read: #{err.strip}" unless status.success?

        answer = JSON.parse(out)
        places = answer['spools'].map { |each| Place.new(each['spool'], each['isSynced']) }
        raise "#{ini} has no spool: expected spooler = /var/spool/app" if places.empty?

        [places, options_of(answer['options'])]
      end

      # An Array if an option was given more than once.
      def options_of(pairs)
        pairs.reject { |name, _| NOT_HERE.include?(name) }.group_by(&:first).transform_values do |all|
          values = all.map(&:last)
          values.size == 1 ? values.first : values
        end
      end

      def order(directory, name, number)
        File.open(directory) do |held|
          UNIXSocket.open("/proc/self/fd/#{held.fileno}/#{name}") do |peer| # a path may be longer than an address
            peer.puts(JSON.generate({ v: 1, id: 1, verb: 'signal', args: { number: number } }))
            raise Errno::ETIMEDOUT unless peer.wait_readable(PATIENCE)

            error = JSON.parse(peer.gets || raise(Errno::ECONNRESET))['error']
            raise "signal #{number} is not raised: #{error['message']}" if error
          end
        end
        true
      end

      # Check_Type()
      def check(value, type)
        return value if value.is_a?(type)

        raise TypeError, "wrong argument type #{value.nil? ? 'nil' : value.class} (expected #{type})"
      end

      def signal_number(number)
        return number if check(number, Integer).between?(0, 255)

        raise ArgumentError, "a signal number is 0 to 255, got #{number}"
      end
    end
  end
end
