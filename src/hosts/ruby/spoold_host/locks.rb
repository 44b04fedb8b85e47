require 'fileutils'

module SpooldHost
  # UWSGI.lock: one lock for all interpreters of a daemon, a file below the first spool. It is released when its holder dies.
  class Locks
    def initialize(spool)
      @directory = File.join(spool, '.spoold', 'locks')
      @files = {}
    end

    def lock(number) = file(number).flock(File::LOCK_EX)
    def unlock(number) = file(number).flock(File::LOCK_UN)

    private

    # Returns the lock file. There is one lock, because uWSGI has more only if they are configured.
    def file(number)
      raise 'Invalid lock number' unless number.zero?

      @files[Process.pid] ||= begin # one per process, because a forked process shares the lock of an open file
        FileUtils.mkdir_p(@directory, mode: 0o700)
        File.open(File.join(@directory, 'user'), File::RDWR | File::CREAT | File::NOFOLLOW, 0o600)
      end
    end
  end
end
