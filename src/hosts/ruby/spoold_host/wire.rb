module SpooldHost
  # The worker refused a request; the message is the worker's.
  class CallError < RuntimeError
  end

  # The bytes between a worker and its host. src/runtime/worker/hosts/frames.ts is the other side, and explains them.
  class Wire
    TASKS_FD, CALLS_FD, PAGE_FD, LIFELINE_FD = 3, 4, 5, 6
    READY, UNLOADABLE, DONE, DETAIL, RECALLED, SIGNAL_ENDED, OUTPUT = *1..7
    MAX_TEXT_BYTES = 65_536

    attr_reader :page, :pid, :lifeline

    def initialize
      @tasks, @calls, @page, @lifeline = [TASKS_FD, CALLS_FD, PAGE_FD, LIFELINE_FD].map { |fd| open(fd) }
      @pid = Process.pid
      @lock = Mutex.new
    end

    # Returns the next message; nil if the worker is gone.
    def read_message
      head = @tasks.read(4)
      return if head.nil? || head.bytesize < 4

      bytes = head.unpack1('V')
      message = @tasks.read(bytes)
      message if message && message.bytesize == bytes
    end

    # Returns the settings, with the list of values of each name. They are the first message, which repeats a name for each value.
    def read_settings
      read_list.each_slice(2).each_with_object({}) do |(name, value), settings|
        (settings[name] ||= []) << value
      end
    end

    def read_list
      unpack(read_message || '')
    end

    def send(kind, number = 0, text = '')
      text = text.b.byteslice(0, MAX_TEXT_BYTES)
      # not syswrite, which raises if a signal interrupts it, or if a task has made the pipe non-blocking
      @tasks.write(["\xffSPL".b, kind, number, text.bytesize].pack('a4CVV') << text)
    rescue Errno::EPIPE
      exit # the worker is gone
    end

    # Sends a request to the worker, waits, and returns the reply: a list of byte strings.
    def call(name, *arguments)
      if Process.pid != @pid
        raise CallError, 'a process that a task forked cannot speak for it; do it in the task itself'
      end

      # In a thread of its own, because Timeout or a trap may raise at any place in the calling thread, and half an exchange would
      # leave its reply to the next one.
      whole = Thread.new { @lock.synchronize { exchange([name, *arguments]) } }
      whole.report_on_exception = false # `value` raises the exception here
      status, *values = whole.value
      raise CallError, values.first.force_encoding(Encoding::UTF_8) unless status == 'ok'

      values
    end

    private

    def exchange(items)
      message = items.map { |item| [item.bytesize, item].pack('Va*') }.join
      @calls.write([message.bytesize].pack('V') << message)
      head = @calls.read(4) || exit!(1) # the worker is gone
      unpack(@calls.read(head.unpack1('V')) || exit!(1))
    end

    def open(descriptor)
      io = IO.for_fd(descriptor, 'r+b', autoclose: false)
      io.sync = true
      io.close_on_exec = true
      io
    end

    def unpack(message)
      items = []
      at = 0
      while at < message.bytesize
        bytes = message.byteslice(at, 4).unpack1('V')
        items << message.byteslice(at + 4, bytes)
        at += 4 + bytes
      end
      items
    end
  end
end
