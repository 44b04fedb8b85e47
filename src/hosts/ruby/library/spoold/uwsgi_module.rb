# frozen_string_literal: true

require 'socket'

# What the module UWSGI is both in a worker of spoold and in any other process.
module UWSGI
  VERSION = '2.0.21-spoold'
  SPOOL_OK = -2
  SPOOL_RETRY = -1
  SPOOL_IGNORE = 0
  HOSTNAME = Socket.gethostname.b
  NUMPROC = 1

  # Options for kinds of processes that spoold does not have: code that sees them would hand work to such a process.
  NOT_HERE = %w[mule mules farm].freeze
  private_constant :NOT_HERE

  class << self
    def mule_id = 0
    def logsize = 0
    def i_am_the_lord(legion) = check(legion, String) && false # there are no legions

    def log(message)
      $stderr.write("#{check(message, String)}\n")
      nil
    end

    def setprocname(name)
      Process.setproctitle(check(name, String))
      nil
    end

    private

    # Raises TypeError as Ruby's Check_Type() does.
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
