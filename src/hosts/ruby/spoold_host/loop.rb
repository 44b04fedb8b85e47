module SpooldHost
  # Runs tasks and signals as they arrive, one at a time.
  class Loop
    TASK, RECALL, SIGNAL = 1, 2, 3
    HEAD = 'CvvVVx8' # x8 skips the time of the task, which only Python's host uses
    # binary, because in uWSGI keys have no encoding, including the keys that it adds
    NAME_KEY = 'spooler_task_name'.b.freeze
    BODY_KEY = 'body'.b.freeze
    HEAD_BYTES = 21
    PACKET_HEADER_BYTES = 4

    # The page, one byte per task: src/runtime/ipc/host-page.ts
    NOT_STARTED, STARTED, OK, RETRY, IGNORE, ERROR, ANSWER = *"\0\1\2\3\4\5\6".b.chars.map(&:freeze)
    SLOTS = RECALL_FLAG = 4032
    # the states of ended tasks whose output is followed by a mark, by the plain state
    PRINTED = [OK, RETRY, IGNORE, ERROR, ANSWER].to_h { |result| [result, (result.ord | 8).chr.b.freeze] }.freeze
    RESULTS = { -2 => OK, -1 => RETRY, 0 => IGNORE }.freeze

    attr_reader :signals

    def initialize(wire, settings, output)
      @wire = wire
      @output = output
      @page = wire.page
      @home = settings['home'].first
      @chdir = settings['chdir']&.first
      @next = 0
      @signals = {}
    end

    def serve
      while (message = @wire.read_message)
        work_off(message)
      end
      SpooldHost.live_on(@wire.lifeline)
    end

    private

    def work_off(message)
      at = 0
      while at < message.bytesize
        kind, _, name_bytes, block_bytes, body_bytes = message.byteslice(at, HEAD_BYTES).unpack(HEAD)
        at += HEAD_BYTES
        case kind
        when TASK
          return await_recall(message, at - HEAD_BYTES) unless start

          block = at + name_bytes
          body = block + block_bytes
          name = message.byteslice(at, name_bytes)
          env = decode(message, block + PACKET_HEADER_BYTES, body)
          env[NAME_KEY] = File.basename(name)
          env[BODY_KEY] = message.byteslice(body, body_bytes) if body_bytes.positive?
          enter(name)
          finish(ask(env))
          at = body + body_bytes
        when SIGNAL then signal(name_bytes)
        when RECALL then recalled
        end
      end
      @wire.send(Wire::DONE, @next)
    end

    # Sets the state before it reads the flag, so that the process that sets the flag sees it. @return true if the task should run
    def start
      @page.pwrite(STARTED, @next % SLOTS)
      return true if @page.pread(1, RECALL_FLAG) == NOT_STARTED

      @page.pwrite(NOT_STARTED, @next % SLOTS)
      false
    end

    def finish(result)
      exit! if Process.pid != @wire.pid # a child that a task forked has come back here
      result = PRINTED.fetch(result) if @output.mark(@next)
      @page.pwrite(result, @next % SLOTS)
      @next += 1
    end

    def decode(message, at, last)
      env = {}
      while at < last
        key_end = at + 2 + (message.getbyte(at) | message.getbyte(at + 1) << 8)
        value_end = key_end + 2 + (message.getbyte(key_end) | message.getbyte(key_end + 1) << 8)
        env[message.byteslice(at + 2...key_end)] = message.byteslice(key_end + 2...value_end)
        at = value_end
      end
      env
    end

    def enter(name)
      go_to(@chdir || (name.include?('/') ? File.join(@home, File.dirname(name)) : @home))
    end

    def go_to(directory)
      Dir.chdir(directory)
    rescue SystemCallError, RuntimeError # RuntimeError: a thread that an earlier task started is in a block of Dir.chdir
      nil # a directory that cannot be entered does not fail the task, as in uWSGI
    end

    def ask(env)
      named = ask_named(env) if env.key?('task') && defined?(Spoold.run)
      return named if named
      return IGNORE unless UWSGI.respond_to?(:spooler)

      answer = SpooldHost.users { UWSGI.spooler(env) }
      # uWSGI silently keeps and retries a task whose result is not an Integer
      (RESULTS[answer] if answer.is_a?(Integer)) || failed(wrong(answer))
    rescue Exception => e # rubocop:disable Lint/RescueException -- SystemExit too, as in uWSGI
      raise if Process.pid != @wire.pid

      failed(SpooldHost.explain(e))
    end

    # Runs a named task, and returns its state; nil if there is no named task of this name.
    def ask_named(env)
      said = Spoold.run(env)
      return if said == :unknown
      return OK unless said

      @wire.send(Wire::DETAIL, @next, said) if Process.pid == @wire.pid
      ANSWER
    end

    def failed(detail)
      @wire.send(Wire::DETAIL, @next, detail) if Process.pid == @wire.pid
      ERROR
    end

    def wrong(answer)
      text = answer.inspect.b
      text = "#{text.byteslice(0, 77)}..." if text.bytesize > 80
      "UWSGI.spooler returned #{text}; expected UWSGI::SPOOL_OK (-2), UWSGI::SPOOL_RETRY (-1) or " \
        'UWSGI::SPOOL_IGNORE (0), so the task is retried'
    end

    # Skips the tasks before the recall in the stream, because the worker has taken them back.
    def await_recall(message, at)
      while message
        while at < message.bytesize
          kind, _, *bytes = message.byteslice(at, HEAD_BYTES).unpack(HEAD)
          at += HEAD_BYTES
          case kind
          when TASK then at += bytes.sum
          when SIGNAL then signal(bytes.first)
          else return recalled
          end
        end
        message = @wire.read_message
        at = 0
      end
      SpooldHost.live_on(@wire.lifeline)
      exit
    end

    def recalled
      @page.pwrite(NOT_STARTED, RECALL_FLAG)
      @wire.send(Wire::RECALLED, @next)
    end

    def signal(number)
      detail = ''
      go_to(@home) # regardless of spooler-chdir, as in uWSGI
      begin
        SpooldHost.users { @signals.fetch(number).call(number) }
      rescue Exception => e # rubocop:disable Lint/RescueException -- as in uWSGI
        raise if Process.pid != @wire.pid

        detail = SpooldHost.explain(e)
      end
      exit! if Process.pid != @wire.pid
      @output.mark(Output::NO_TASK)
      @wire.send(Wire::SIGNAL_ENDED, number, detail)
    end
  end
end
