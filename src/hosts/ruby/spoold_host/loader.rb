# Requires the configured files, in uWSGI's order (plugins/rack/rack_plugin.c).
module SpooldHost
  module_function

  # Requires the configured files, and reports the result to the worker. Returns true if tasks may follow.
  def load(wire, settings, tasks)
    $LOAD_PATH.unshift(LIBRARY)
    $LOAD_PATH.unshift(*settings.fetch('path', []).map { |path| path.dup.force_encoding(Encoding::UTF_8) })
    before = surroundings
    settings.fetch('shared-rbrequire', []).each { |name| require_file(name) }
    tell_of_process(wire, before) if settings.key?('lazy-apps')
    settings.fetch('rbrequire', []).each { |name| require_file(name) }
    failures = load_applications(settings)
    tell_of_threads(wire)
    tell_of_process(wire, before) unless settings.key?('lazy-apps')
    UWSGI.fork!
    UWSGI.post_fork_hook if UWSGI.respond_to?(:post_fork_hook)
    return false unless usable?(wire, settings, tasks, failures)

    wire.send(Wire::READY, 0, declared)
    true
  rescue SystemExit
    raise
  rescue Exception => e # rubocop:disable Lint/RescueException -- a file that is no Ruby is a ScriptError
    wire.send(Wire::UNLOADABLE, 0, explain(e))
    false
  end

  # Returns what crons and their commands inherit from the process in which they run.
  def surroundings = [Dir.pwd, File.umask, ENV.to_h]

  # Reports what the code loaded so far has changed in this process. uWSGI loads that code in its master, which runs crons, so the
  # changes hold for crons.
  def tell_of_process(wire, before)
    (old_directory, old_umask, old), (directory, umask, env) = before, surroundings
    changed = env.reject { |name, value| old[name] == value }.map { |pair| pair.join('=') } + (old.keys - env.keys)
    return if changed.empty? && [directory, umask] == [old_directory, old_umask]

    wire.call('loaded', (directory == old_directory ? '' : directory).b, umask == old_umask ? '' : umask.to_s, *changed.map(&:b))
  end

  LIBRARY = File.join(File.dirname(__dir__), 'library').freeze

  # Returns the declarations of the named tasks; '' if the library was not loaded, or there are none.
  def declared = defined?(Spoold.declared) ? Spoold.declared : ''

  # Loads applications as uWSGI does, and serves none of them.
  #
  # @return an error message per application that could not be loaded
  def load_applications(settings)
    settings.fetch('application', []).map { |text| text.dup.force_encoding(Encoding::UTF_8) }.each_slice(3).filter_map do |option, loader, value|
      load_application(loader, value)
      nil
    rescue Exception => e # rubocop:disable Lint/RescueException -- SystemExit too: an application must not end the host
      "the application of #{option} = #{value} could not be loaded: #{explain(e)}".b
    end
  end

  def load_application(loader, value)
    if loader == 'rack'
      require 'rack'
      Rack::Builder.parse_file(value)
    else
      Dir.chdir(value) # uWSGI stays in this directory, too
      require './config/environment'
    end
  end

  # Returns true if this host can run tasks; otherwise it reports why not.
  #
  # Code that registers nothing, or an application that fails, ends the worker only if there is no other handler. An application
  # that registers nothing does not, because it is loaded for its side effects.
  def usable?(wire, settings, tasks, failures)
    idle = !UWSGI.respond_to?(:spooler) && tasks.signals.empty? && declared.empty?
    if idle && settings.key?('alone') && !settings.key?('application')
      wire.send(Wire::UNLOADABLE, 0, IDLE)
      return false
    end
    if failures.any? && (settings.key?('need-app') || (idle && settings.key?('alone')))
      wire.send(Wire::UNLOADABLE, 0, failures.join("\n"))
      return false
    end
    failures.each { |failure| wire.call('warn', failure) }
    wire.call('warn', IDLE) if idle
    true
  end

  IDLE = 'Ruby code registered no handler: it leaves all tasks alone. Define UWSGI.spooler in what rbrequire, ' \
         'spooler-import or the web application loads'.b.freeze

  # Warns of threads that loaded code has started: uWSGI forks its spoolers after loading, so there they stay in its master.
  def tell_of_threads(wire)
    count = Thread.list.length - 1
    return if count.zero?

    wire.call('warn', "Ruby code left #{count == 1 ? 'a thread' : "#{count} threads"} running while it was loaded, which run in each worker (in uWSGI only in the master). Start them in UWSGI.post_fork_hook, or in a handler".b)
  end

  # Requires a file from the load path, as uWSGI does, or from the current directory, where uWSGI finds none by its bare name.
  def require_file(name)
    name = name.dup.force_encoding(Encoding::UTF_8)
    require name
  rescue LoadError => e
    raise unless e.path == name && File.file?(name)

    require File.expand_path(name)
  end

  OURS = "#{File.dirname(__dir__)}/".freeze

  # Returns an exception and its causes as text. An exception that is raised while another one is handled has that one as its
  # cause. Each text is cut, so that all have room.
  def explain(error, most = Wire::MAX_TEXT_BYTES)
    causes = [error]
    causes.push(causes.last.cause) while causes.last.cause && causes.length <= MAX_CAUSES
    causes.map { |each| explain_alone(each).byteslice(0, most / causes.length - CAUSE.length) }.join(CAUSE)
  end

  MAX_CAUSES = 5
  CAUSE = "\n[cause]: ".freeze

  # Returns an exception as Ruby prints it (plugins/rack/rack_plugin.c, uwsgi_ruby_exception_log), without the host's own frames.
  def explain_alone(error)
    first, *rest = (error.backtrace || []).map(&:b).reject { |line| line.start_with?(OURS) }
    ["#{"#{first}: " if first}#{message_of(error)} (#{error.class})", *rest.map { |line| "\tfrom #{line}" }].join("\n")
  end

  # Returns the message of an exception, whose class may override `message` by a method that raises.
  def message_of(error)
    error.message.to_s.b
  rescue Exception # rubocop:disable Lint/RescueException
    'its message is not available'
  end
end
