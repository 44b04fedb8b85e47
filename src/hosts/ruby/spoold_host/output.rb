module SpooldHost
  # Standard output and standard error as one pipe, which the worker reads; src/runtime/worker/hosts/host-output.ts explains it.
  class Output
    NO_TASK = 0xffffffff
    OUTPUT_FLAG = 4033
    PIPE_BYTES = 1 << 20
    # Linux; not in Fcntl
    F_SETPIPE_SZ = 1031
    FIONREAD = 0x541B
    NOTHING = [0].pack('i').freeze

    # If the worker cannot read the pipe, output goes where it went before, and is never marked.
    def initialize(wire)
      @page = wire.page
      reader, writer = IO.pipe
      wire.send(Wire::OUTPUT, 0, "/proc/#{Process.pid}/fd/#{reader.fileno}")
      token, = wire.read_list
      reader.close
      take(writer, token) if token
    end

    # Marks the end of a task's output. @return false if there is no output to mark
    def mark(number)
      return false unless @pipe
      # the pipe before the flag: the flag then covers what the worker had taken out of the pipe by that time
      return false if flushed? && empty? && @page.pread(1, OUTPUT_FLAG) == "\0"

      # not syswrite, which raises if a signal interrupts it, or if a task has made the pipe non-blocking
      @pipe.write(@token + [number].pack('V'))
      true
    end

    private

    def take(writer, token)
      enlarge(writer)
      STDOUT.reopen(writer)
      STDERR.reopen(writer)
      STDOUT.sync = STDERR.sync = true
      @pipe = writer
      @token = "\0".b + token
    end

    def enlarge(writer)
      writer.fcntl(F_SETPIPE_SZ, PIPE_BYTES)
    rescue SystemCallError
      nil # with a smaller pipe, the writer has to wait more often
    end

    def flushed?
      STDOUT.flush
      STDERR.flush
      true
    rescue IOError, SystemCallError
      true # a task closed a stream
    end

    def empty?
      bytes = NOTHING.dup
      @pipe.ioctl(FIONREAD, bytes)
      bytes == NOTHING
    rescue SystemCallError
      false
    end
  end
end
