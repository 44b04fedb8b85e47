# frozen_string_literal: true

require 'json'
require 'securerandom'
require_relative 'spool'

# Named tasks: functions that are scheduled and run by name, with arguments in JSON.
#
#   require 'spoold'
#   Spoold.task('send-mail', max_retries: 5) { |to, subject: 'hello'| … }
#   Spoold.schedule('send-mail', 'joe', subject: 'by name')
module Spoold
  # Raised in a task: run it again, at a time or after the backoff. It counts as one of max_retries.
  class Retry < StandardError
    attr_reader :at

    def initialize(message = 'the task is to run again', at: nil)
      super(message)
      @at = at && Spoold.time_of(at)
    end
  end

  # Raised in a task: never run it again.
  class Abort < StandardError; end

  Task = Struct.new(:function, :max_retries, :max_concurrency, :periodic, :place)
  IN_BODY = '@body'
  BODY_FROM_BYTES = 64_000
  MAX_BYTES = 1_048_576
  MAX_CHARS = 10_000
  private_constant :Task, :IN_BODY, :BODY_FROM_BYTES, :MAX_BYTES, :MAX_CHARS

  @tasks = {}
  # the tasks that the worker knows. A task that is registered later does not run, because the worker has no limits for it
  @declared = {}

  class << self
    # Registers a function.
    #
    # max_retries:      how often a task runs again after a failure; Float::INFINITY: until it succeeds
    # max_concurrency:  how many tasks of this name run at a time, over all processes and daemons of their spool
    # periodicity:      the period after which the daemon schedules the task by itself: seconds, or text such as '5m'
    # cron:             a cron expression, at whose times the daemon schedules the task by itself, in the zone time_zone:
    #
    # With periodicity: or cron: the block gets no arguments, and docs/tasks.md explains missed: and overlap:.
    def task(name, max_retries: 0, max_concurrency: nil, periodicity: nil, cron: nil, time_zone: nil, missed: nil, overlap: nil, &function)
      raise ArgumentError, "the task #{name} needs a block" unless function

      name = name.to_s
      check_concurrency(name, max_concurrency, max_retries)
      periodic = { periodicity: periodicity, cron: cron, timeZone: time_zone, missed: missed, overlap: overlap }.compact
      check_arity(name, function) unless periodic.empty?

      place = place_of(function)
      return name if @tasks[name]&.place == place # the file is loaded again, or under another name

      raise ArgumentError, "two tasks have the name #{name}: #{@tasks[name].place} and #{place}" if @tasks.key?(name)

      @tasks[name] = Task.new(function, max_retries, max_concurrency, periodic, place)
      name
    end

    # Returns the file and line of a block. The file has its real path, which is the same however the file is loaded.
    def place_of(function)
      file, line = function.source_location
      "#{File.exist?(file) ? File.realpath(file) : file}:#{line}"
    end

    # Stores a task that runs as soon as possible, and returns its id.
    def schedule(name, *args, **kwargs) = store(name, nil, args, kwargs)

    # Stores a task that runs no earlier than at this Time, and returns its id.
    def schedule_at(name, time, *args, **kwargs) = store(name, time_of(time), args, kwargs)

    # Returns a Time or a Date as a Time. Raises ArgumentError for text and numbers.
    def time_of(at)
      return at if at.is_a?(Time)
      return at.to_time if at.respond_to?(:to_time)

      raise ArgumentError, "at is to be a Time, got #{at.inspect}"
    end

    # For the host. Runs a named task, and returns its answer: nil if it is done, :unknown if no function had its name when the
    # code was loaded.
    def run(env)
      task = @declared[env['task'].dup.force_encoding(Encoding::UTF_8)]
      task ? perform(task, env) : :unknown
    end

    # For the host. Returns the declarations of the registered tasks, for the worker; '' if there are none.
    def declared
      @declared = @tasks.dup
      tasks = @tasks.map do |name, task|
        limit = task.max_retries
        { name: name, maxRetries: limit == Float::INFINITY ? -1 : limit, maxConcurrency: task.max_concurrency,
          periodic: task.periodic.empty? ? nil : task.periodic, place: task.place }
      end
      tasks.empty? ? '' : JSON.generate(tasks)
    end

    private

    def check_concurrency(name, most, retries)
      return if most.nil?
      raise ArgumentError, "the task #{name}: max_concurrency is to be a whole number from 1, got #{most.inspect}" unless
        most.is_a?(Integer) && most.positive?
      raise ArgumentError, "the task #{name}: max_concurrency needs a positive max_retries" unless retries.positive?
    end

    # Raises ArgumentError if the block of a periodic task needs arguments. The worker checks the other options.
    def check_arity(name, function)
      needed = function.arity.negative? ? -function.arity - 1 : function.arity
      raise ArgumentError, "the task #{name} is periodic, so it is called without arguments, and its block needs #{needed}" if needed.positive?
    end

    def perform(task, env)
      begin
        args, kwargs = arguments(env)
      rescue StandardError => e
        return answer(bury: "the arguments cannot be read: #{e.message}")
      end
      SpooldHost.users { task.function.call(*args, **kwargs) }
      nil
    rescue Abort => e
      answer(bury: e.message)
    rescue Retry => e
      answer(retry: e.at ? [e.at - Time.now, 0].max : true, reason: e.message)
    rescue Exception => e # rubocop:disable Lint/RescueException -- SystemExit is a failure, too
      answer(error: SpooldHost.explain(e, MAX_CHARS))
    end

    def answer(said)
      JSON.generate(said.transform_values { |value| value.is_a?(String) ? value.dup.force_encoding(Encoding::UTF_8).scrub[0, MAX_CHARS] : value })
    end

    def arguments(env)
      inside = env['args'] == IN_BODY
      both = inside ? JSON.parse(env['body'] || '') : { 'args' => JSON.parse(env['args'] || '[]'), 'kwargs' => JSON.parse(env['kwargs'] || '{}') }
      args = both['args'] || []
      kwargs = both['kwargs'] || {}
      raise ArgumentError, 'args: expected a JSON array' unless args.is_a?(Array)
      raise ArgumentError, 'kwargs: expected a JSON object' unless kwargs.is_a?(Hash)

      [args, kwargs.transform_keys(&:to_sym)]
    end

    def store(name, time, args, kwargs)
      id = SecureRandom.uuid
      inside = { 'args' => JSON.generate(args), **(kwargs.empty? ? {} : { 'kwargs' => JSON.generate(kwargs) }) }
      bytes = inside.values.sum(&:bytesize)
      raise ArgumentError, "the arguments of #{name} take #{bytes} bytes as JSON; #{MAX_BYTES} is the limit" if bytes > MAX_BYTES

      body = bytes > BODY_FROM_BYTES ? JSON.generate({ args: args, kwargs: kwargs }) : ''
      inside = { 'args' => IN_BODY } unless body.empty?
      put({ 'task' => name.to_s, **inside, 'id' => id }, time, body)
      id
    end

    # Stores a packet: in a handler, in the spool of its daemon; elsewhere, in the place that the environment names.
    def put(packet, time, body)
      return Spool.spool(packet, place, at: time, body: body) unless defined?(UWSGI) && UWSGI.respond_to?(:spool)

      packet['at'] = format('%.6f', time.to_f) if time
      packet['body'] = body unless body.empty?
      UWSGI.spool(packet)
    end

    def place
      first = ENV.fetch('SPOOLD_ENQUEUE_TO', '').split(',').map(&:strip).find { |entry| !entry.match?(%r{\A[^/]*=}) }
      raise ArgumentError, 'nothing says where tasks go: name the spool in the environment variable SPOOLD_ENQUEUE_TO' unless first
      return first unless first.match?(/\Arediss?(\+\w+)?:/i) # the message leaves out the place, which may have a password

      raise ArgumentError, 'Ruby does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback)'
    end
  end
end
