# frozen_string_literal: true

require 'json'
require_relative '../spool'
require_relative '../spool_socket'

# The module UWSGI outside uWSGI: `require 'spoold/uwsgi'`, first in config.ru, under puma or any other server. The daemon of
# SPOOLD_ENQUEUE_TO (a directory, or the address of its socket) or of SPOOLD_INI (the ini that spoold runs) runs the tasks that
# are stored here. Registering has no effect here, because that daemon's code registers. In a real uWSGI and in a worker of spoold
# this file does nothing. docs/leaving-uwsgi.md explains it.
unless defined?(UWSGI) && UWSGI.respond_to?(:spool)
  require_relative 'uwsgi_module'

  module UWSGI
    UNTOLD = 'nothing says where tasks go: set the environment variable SPOOLD_ENQUEUE_TO=/var/spool/app, or SPOOLD_INI=/etc/app.ini to the ini that spoold runs'
    #: seconds: the longest wait for the answer of a daemon
    PATIENCE = 5
    #: epoch seconds at the end of the year 9999; larger numbers are refused, because they are probably milliseconds
    LAST_SECOND = 253_402_300_799
    NUMBER = /\A-?[0-9]+(?:\.[0-9]*)?\z/.freeze
    DURATION = /\A(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+\z/.freeze
    UNIT_SECONDS = { 'ms' => 0.001, 's' => 1, 'm' => 60, 'h' => 3600, 'd' => 86_400, 'w' => 604_800 }.freeze
    DATED = /\A(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d\d(?::?\d\d)?))?)?\z/i.freeze
    #: the address of a daemon's socket, unlike a path
    ADDRESS = %r{\A(?:@.+|[^/]*:\d+)\z}m.freeze
    #: a place for tasks: a directory, or the address of a daemon
    Place = Struct.new(:name, :sync) do
      def socket? = ADDRESS.match?(name) || File.socket?(name)
    end
    private_constant :UNTOLD, :PATIENCE, :LAST_SECOND, :NUMBER, :DURATION, :UNIT_SECONDS, :DATED, :ADDRESS, :Place

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
        at &&= seconds_of(at)
        raise "priority must be digits only, got #{priority.inspect}" unless priority.nil? || /\A[0-9]{1,255}\z/.match?(priority)

        # a time before second 1 means at once, which needs no key
        path = store(place_of(pairs['spooler']), pairs, at: (at if at && at >= 1), priority: priority, body: body)
        task.delete('body') if task['body'].is_a?(String) && !task.frozen?
        path
      end
      alias send_to_spooler spool

      def i_am_the_spooler = false

      # -- the process

      # Returns the pid of the server: of the process that loaded this file before it forked, else of the parent process.
      def masterpid = Process.pid == @loaded_by ? Process.ppid.nonzero? || @loaded_by : @loaded_by
      def worker_id = Process.pid
      def set_user_harakiri(_seconds) = nil

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

      # Raises a signal over the control socket of the first spool that has a daemon, or over the address to which tasks go.
      def signal(number, address = nil)
        signal_number(number)
        return raise_at(number, address) if address

        places.each do |place|
          return raise_at(number, place.name) if place.socket?

          Dir.glob('control{,.[0-9]*}', base: "#{place.name}/.spoold").sort.each do |name|
            return order("#{place.name}/.spoold", name, number)
          rescue SystemCallError
            next # the daemon is dead, or another user's
          end
        end
        raise "signal #{number} is not raised: this user reaches no daemon of #{places.map(&:name).join(', ')}"
      end

      def method_missing(name, *)
        raise NoMethodError, "UWSGI.#{name} is not there outside uWSGI: docs/uwsgi-module.md says what to take instead"
      end

      def respond_to_missing?(*) = false

      # Defines UWSGI::OPT when it is first used.
      def const_missing(name)
        return super unless name == :OPT

        told
        const_set(:OPT, @options)
      end

      private

      # Stores a task. Returns the path of its file, or the address of the daemon's socket to which it was sent.
      def store(place, pairs, **options)
        if place.socket?
          SpoolSocket.send_task(pairs.reject { |key, _| key == 'CONTENT_LENGTH' }, place.name, **options)
          return place.name
        end
        check_reader(place.name)
        Spool.spool(pairs, place.name, sync: place.sync, **options)
      rescue ArgumentError, SystemCallError, IOError, SocketError, SpoolSocket::Refused => e
        raise e.message
      end

      # Returns the epoch seconds of the key `at`, as the daemon reads it (src/formats/protocol/at.ts).
      def seconds_of(text)
        is_number = NUMBER.match?(text)
        seconds = is_number ? text.to_f : text.start_with?('+') ? from_now(text[1..]) : dated(text) # rubocop:disable Style/NestedTernaryOperator
        return seconds if seconds && seconds.abs <= LAST_SECOND

        hint = ', which is after the year 9999: are these milliseconds? Give seconds, or a Date' if is_number
        raise "at must be epoch seconds, a Date, an ISO 8601 date, or +1h30m from now, got #{text.inspect}#{hint}"
      end

      def from_now(text)
        return (Time.now.to_f + text.to_f).ceil if NUMBER.match?(text) && text[0] != '-'

        (Time.now.to_f + text.scan(/([0-9.]+)(ms|[smhdw])/).sum { |amount, unit| amount.to_f * UNIT_SECONDS[unit] }).ceil if DURATION.match?(text)
      end

      # Returns the epoch seconds of an ISO 8601 date, in the zone of this machine unless the date names one; nil if the text is
      # not a date.
      def dated(text)
        *numbers, fraction, zone = DATED.match(text)&.captures
        year, month, day, hour, minute, second = numbers.map(&:to_i)
        return if year.nil? || hour > 23 || minute > 59 || second > 59

        at = Time.new(year, month, day, hour, minute, second + Rational(fraction.to_s[0, 3].ljust(3, '0').to_i, 1000), offset_of(zone))
        at.to_f if at.day == day
      rescue ArgumentError
        nil
      end

      def offset_of(zone)
        return zone && 0 unless zone&.match?(/\A[+-]/)

        hours, minutes = zone[1, 2].to_i, zone[3..].delete(':').to_i
        raise ArgumentError, zone if hours > 23 || minutes > 59

        "#{zone[0]}#{format('%02d:%02d', hours, minutes)}"
      end

      # Raises if the daemon is another user: a task file has the mode 0600, so the daemon could not read it. Root stores for the
      # owner of the spool.
      def check_reader(directory)
        state = "#{directory}/.spoold"
        daemon = File.stat(File.exist?(state) ? state : directory).uid
        return if [0, Process.euid].include?(daemon) || Process.euid.zero?

        raise "the daemon of #{directory} is the user #{daemon}, and cannot read what this one, #{Process.euid}, stores: let both be the same, or store over its socket (SPOOLD_ENQUEUE_TO=/run/spoold.sock)"
      end

      def place_of(name)
        return places.first if name.nil? || name.empty?

        found = places.find { |place| [name, File.exist?(name) ? File.realpath(name) : name].include?(place.name) }
        found ||= places.first if places.first.socket? # the daemon behind the socket knows its own spools
        found || raise("spooler must be one of #{places.map(&:name).join(', ')}, got #{name.inspect}")
      end

      def places
        told
        @places
      end

      # Reads places and options from the environment, and again if it has changed, as it does in tests.
      def told
        said = ENV.values_at('SPOOLD_ENQUEUE_TO', 'SPOOLD_INI').map { |value| value unless value.to_s.empty? }
        return if @places && @told_by == said

        directory, ini = said
        @places, @options = directory ? from_text(directory) : ini ? from_ini(ini) : raise(UNTOLD) # rubocop:disable Style/NestedTernaryOperator
        @told_by = said
      end

      # Returns places and options from PLACE, or from several with QUEUE= before the places of queues other than the default one.
      # The default queue's place comes first.
      def from_text(text)
        named = text.split(',').map { |entry| %r{\A(?:([^=/]*)=)?(.*)\z}m.match(entry.strip).captures }
        own, others = named.partition { |queue, _| [nil, 'default'].include?(queue) }
        raise 'SPOOLD_ENQUEUE_TO: expected a place for tasks without a queue' if own.empty?

        found = (own + others).map { |_, place| Place.new(name_of(place), true) }
        [found, { 'spooler' => found.first.name }]
      end

      def name_of(place)
        raise 'Ruby does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback)' if place.match?(/\Arediss?(\+\w+)?:/i) # which may have a password
        return place if ADDRESS.match?(place)

        path = File.expand_path(place)
        raise "there is no spool directory #{place}: create it as the user of its daemon" unless File.directory?(path) || File.socket?(path)

        File.realpath(path)
      end

      # Returns places and options from `spoold config`, which resolves the ini as the daemon does.
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

      # Returns the options as a Hash. A value is an Array if the option was given more than once.
      def options_of(pairs)
        pairs.reject { |name, _| NOT_HERE.include?(name) }.group_by(&:first).transform_values do |all|
          values = all.map(&:last)
          values.size == 1 ? values.first : values
        end
      end

      # Sends a signal to an address, as `uwsgi --signal` does.
      def raise_at(number, address)
        peer = SpoolSocket.connect(address, PATIENCE)
        peer.write([110, 0, 0, number].pack('C4'))
        answer = peer.read(4) if peer.wait_readable(PATIENCE)
        raise Errno::ETIMEDOUT unless answer
        raise "node #{address} rejected signal #{number}" unless answer.end_with?("\1")

        true
      rescue SystemCallError, SocketError
        raise "unable to deliver signal #{number} to node #{address}"
      ensure
        peer&.close
      end

      def order(directory, name, number)
        File.open(directory) do |held|
          UNIXSocket.open("/proc/self/fd/#{held.fileno}/#{name}") do |peer| # the spool's path may be too long for an address
            peer.puts(JSON.generate({ v: 1, id: 1, verb: 'signal', args: { number: number } }))
            raise Errno::ETIMEDOUT unless peer.wait_readable(PATIENCE)

            error = JSON.parse(peer.gets || raise(Errno::ECONNRESET))['error']
            raise "signal #{number} is not raised: #{error['message']}" if error
          end
        end
        true
      end
    end
  end

  # Makes the functions module functions, as in uWSGI, so that `include UWSGI` includes them.
  UWSGI.singleton_methods(false).each do |name|
    UWSGI.define_method(name) { |*arguments| UWSGI.public_send(name, *arguments) }
    UWSGI.send(:private, name)
  end
end
