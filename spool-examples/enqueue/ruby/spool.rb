# frozen_string_literal: true

# Stores tasks for spoold or uWSGI. Copy this file: it needs Ruby 2.7 or later, and nothing else.
#
#   require_relative 'spool'
#   path = Spool.spool({ to: 'joe' }, '/var/spool/app', at: Time.now + 60, priority: 5, body: 'hello')
require 'socket'

module Spool
  # Bytes: the size of the block and each length in it are 16-bit numbers.
  LIMIT = 0xFFFF
  MUTEX = Mutex.new
  ENTER = File::RDONLY | File::NOFOLLOW | File::NONBLOCK
  MOST_LINKS = 40
  private_constant :MUTEX, :ENTER, :MOST_LINKS
  @counter = 0

  module_function

  # Stores one task, and returns the path of its file.
  #
  # dictionary  keys and values, in order; anything but a String is written as its to_s
  # spooler     the spool directory, which has to exist
  # at          do not run before this time: a Time, or epoch seconds, which may have a fraction
  # priority    the priority directory, digits only; lower runs first if the daemon has spooler-ordered
  # body        the body, of any size
  # sync        return only once the task is on disk, where it survives a power failure
  #
  # Root stores for the owner of the spool, whose daemon could not run a task of root's (Linux).
  #
  # Raises ArgumentError for invalid arguments, before anything is written, and SystemCallError if the task could not be
  # stored.
  def spool(dictionary, spooler, at: nil, priority: nil, body: '', sync: true)
    at = at&.to_f
    packet = encode(dictionary, at, priority)
    name = task_name
    reach(spooler, priority&.to_s) do |top, directory, owner|
      # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
      hidden = File.join(directory, ".#{name}")
      begin
        File.open(hidden, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, 0o600) do |file|
          file.chown(*owner) if owner
          file.write(packet, body)
          file.flush
          # After the last write, which sets the mtime to now.
          File.utime(at.floor, at.floor, owner ? path_of(file) : hidden) if at
          file.fsync if sync
        end
        File.rename(hidden, File.join(directory, name))
      rescue StandardError
        File.unlink(hidden) if File.exist?(hidden)
        raise
      end
      # Syncs the rename, and a new priority directory.
      [directory, top].uniq.each { |each| File.open(each, &:fsync) } if sync
    end
    File.join(*[spooler, priority&.to_s, name].compact)
  end

  # The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.
  def encode(dictionary, at = nil, priority = nil)
    pairs = dictionary.map { |key, value| [key.to_s.b, value.to_s.b] }
    misplaced = pairs.map(&:first) & %w[at priority body]
    raise ArgumentError, "the key \"#{misplaced[0]}\" is not for the dictionary: give it as an argument" if misplaced.any?
    raise ArgumentError, "at must be epoch seconds, got #{at}" unless at.nil? || (at.finite? && at >= 0)
    raise ArgumentError, "priority must be digits, got #{priority}" unless priority.nil? || /\A[0-9]+\z/.match?(priority.to_s)

    pairs << ['at', format('%.6f', at).sub(/\.?0+\z/, '')] if at
    pairs << ['priority', priority.to_s] if priority
    block = pairs.map { |key, value| encode_pair(key, value) }.join.b
    if block.bytesize > LIMIT
      raise ArgumentError, "the keys and values take #{block.bytesize} bytes, the limit is #{LIMIT}: use the body"
    end

    [17, block.bytesize, 0].pack('CvC') + block
  end

  def encode_pair(key, value)
    name = key[0, 40]
    raise ArgumentError, 'a key is empty' if key.empty?
    raise ArgumentError, "the key \"#{name}\" has #{key.bytesize} bytes, the limit is #{LIMIT}" if key.bytesize > LIMIT
    if value.bytesize > LIMIT
      raise ArgumentError, "the value of \"#{name}\" has #{value.bytesize} bytes, the limit is #{LIMIT}: use the body"
    end

    [key.bytesize].pack('v') + key + [value.bytesize].pack('v') + value
  end

  # Yields the paths of the spool and of the task's directory, and the uid and gid to which root gives the task, or nil.
  def reach(spooler, priority)
    return yield(spooler, priority ? make_directory(File.join(spooler, priority)) : spooler, nil) unless Process.euid.zero? && File.directory?('/proc/self/fd')

    top, owner = hold(spooler)
    begin
      directory = priority ? hold_priority(top, priority, owner) : top
      yield(path_of(top), path_of(directory), owner)
    ensure
      [top, directory].uniq.each { |each| each&.close }
    end
  end

  # Opens the spool for root. Returns it with the uid and gid for which root stores there, nil for root itself. Root goes there
  # from / by descriptors, and through no links but its own, because the owner of a directory on the way may exchange its entries
  # at any time.
  def hold(path)
    rest = File.join(path.start_with?('/') ? '/' : Dir.pwd, path).split('/').reject { |name| ['', '.'].include?(name) }
    at = File.open('/', ENTER)
    stranger = nil
    is_exchangeable = false
    links = 0
    while (name = rest.shift)
      found = File.lstat("#{path_of(at)}/#{name}")
      others_write = at.stat.mode.anybits?(0o022)
      may_move = others_write && !at.stat.sticky?
      if found.symlink?
        is_roots = stranger.nil? && found.uid.zero? && !may_move && !(others_write && found.nlink > 1)
        doubtful(path, "it is reached through a link of uid #{found.uid}, or one that others can exchange") unless is_roots
        raise Errno::ELOOP, path if (links += 1) > MOST_LINKS

        text = File.readlink("#{path_of(at)}/#{name}")
        rest = text.split('/').reject { |part| ['', '.'].include?(part) } + rest
        name = text.start_with?('/') ? '/' : '.'
      end
      at = enter(at, name)
      is_exchangeable ||= may_move
      stranger ||= at.stat.uid unless at.stat.uid.zero?
    end
    [at, owner_of(path, at, stranger, is_exchangeable)]
  rescue SystemCallError => e
    at&.close
    raise e.is_a?(Errno::EPERM) ? e : e.class.new(path)
  end

  def owner_of(path, directory, stranger, is_exchangeable)
    found = directory.stat
    doubtful(path, "it belongs to uid #{found.uid}, and uid #{stranger} can exchange it") unless [nil, found.uid].include?(stranger)
    return [found.uid, found.gid] if stranger

    state = begin
      File.lstat("#{path_of(directory)}/.spoold")
    rescue Errno::ENOENT
      nil
    end
    return [state.uid, found.gid] if state&.directory? && !state.uid.zero?

    doubtful(path, 'others can exchange it, because they may write in a directory above it') if is_exchangeable
  end

  def doubtful(path, fault)
    raise Errno::EPERM, "root stores nothing in #{path}: #{fault}; run this as the user of its daemon"
  end

  # Opens a directory below another one, and closes that one.
  def enter(above, name)
    below = File.open(name == '/' ? name : "#{path_of(above)}/#{name}", ENTER)
    above.close
    return below if below.stat.directory?

    below.close
    raise Errno::ENOTDIR, name
  end

  # Opens the priority directory, which root makes if it is missing, and gives it to the owner. It must be empty for that, because
  # somebody may have put another directory of root's in its place.
  def hold_priority(top, priority, owner)
    path = make_directory("#{path_of(top)}/#{priority}")
    below = File.open(path, ENTER)
    raise Errno::ENOTDIR, priority unless below.stat.directory?
    return below if owner.nil? || below.stat.uid == owner[0]

    unless below.stat.uid.zero? && Dir.empty?(path_of(below))
      raise Errno::EPERM, "#{priority} belongs to uid #{below.stat.uid}, and root stores for uid #{owner[0]}: run this as that user"
    end

    below.chown(*owner)
    below
  rescue StandardError
    below&.close
    raise
  end

  # Returns a path of an open file that is right even if its name leads elsewhere meanwhile.
  def path_of(file)
    "/proc/self/fd/#{file.fileno}"
  end

  def make_directory(path)
    Dir.mkdir(path) # 0777 minus the umask
    path
  rescue Errno::EEXIST
    path
  end

  def task_name
    now = Time.now
    counter = MUTEX.synchronize { @counter += 1 }
    "uwsgi_spoolfile_on_#{Socket.gethostname}_#{Process.pid}_#{counter}_#{rand(2**31)}_#{now.to_i}_#{now.usec}"
  end
  private_class_method :encode_pair, :reach, :hold, :owner_of, :doubtful, :enter, :hold_priority, :path_of, :make_directory, :task_name
end
