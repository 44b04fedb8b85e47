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
  private_constant :MUTEX
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
  # Raises ArgumentError for invalid arguments, before anything is written, and SystemCallError if the task could not be
  # stored.
  def spool(dictionary, spooler, at: nil, priority: nil, body: '', sync: true)
    at = at&.to_f
    packet = encode(dictionary, at, priority)
    directory = priority ? make_directory(File.join(spooler, priority.to_s)) : spooler
    name = task_name
    # No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    hidden = File.join(directory, ".#{name}")
    path = File.join(directory, name)
    begin
      File.open(hidden, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, 0o600) do |file|
        file.write(packet, body)
        file.flush
        File.utime(at.floor, at.floor, hidden) if at # after the last write, which sets the mtime to now
        file.fsync if sync
      end
      File.rename(hidden, path)
    rescue StandardError
      File.unlink(hidden) if File.exist?(hidden)
      raise
    end
    # Syncs the rename, and a new priority directory.
    [directory, spooler].uniq.each { |each| File.open(each, &:fsync) } if sync
    path
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
  private_class_method :encode_pair, :make_directory, :task_name
end
