# Requires what the configuration names, in uWSGI's order (plugins/rack/rack_plugin.c).
module SpooldHost
  module_function

  # Tells the worker how it went. True when tasks may come.
  def load(wire, settings)
    $LOAD_PATH.unshift(*settings.fetch('path', []).map { |path| path.dup.force_encoding(Encoding::UTF_8) })
    (settings.fetch('shared-rbrequire', []) + settings.fetch('rbrequire', [])).each { |name| require_file(name) }
    UWSGI.post_fork_hook if UWSGI.respond_to?(:post_fork_hook)
    wire.send(Wire::READY)
    true
  rescue SystemExit
    raise
  rescue Exception => e # rubocop:disable Lint/RescueException -- a file that is no Ruby is a ScriptError
    wire.send(Wire::UNLOADABLE, 0, explain(e))
    false
  end

  # uWSGI asks the search path alone, and so never finds a file beside the ini by its bare name.
  def require_file(name)
    name = name.dup.force_encoding(Encoding::UTF_8)
    require name
  rescue LoadError => e
    raise unless e.path == name && File.file?(name)

    require File.expand_path(name)
  end

  OURS = "#{File.dirname(__dir__)}/".freeze

  # As Ruby prints it (plugins/rack/rack_plugin.c, uwsgi_ruby_exception_log), without what is not the user's.
  def explain(error)
    first, *rest = (error.backtrace || []).map(&:b).reject { |line| line.start_with?(OURS) }
    ["#{"#{first}: " if first}#{message_of(error)} (#{error.class})", *rest.map { |line| "\tfrom #{line}" }].join("\n")
  end

  # It may have one of its own, which may raise.
  def message_of(error)
    error.message.to_s.b
  rescue Exception # rubocop:disable Lint/RescueException
    'its message cannot be had'
  end
end
