# frozen_string_literal: true

# Sends tasks to the socket of spoold or uWSGI. Copy this file and spool.rb.
#
#   require_relative 'spool_socket'
#   SpoolSocket.send_task({ to: 'joe' }, 'host:3031', at: Time.now + 60, priority: 5)
require 'io/wait'
require 'socket'
require_relative 'spool'

module SpoolSocket
  # The server answered that it did not store the task.
  class Refused < StandardError; end

  STORED = [255, 0, 0, 1].pack('C4')
  REFUSED = [255, 0, 0, 0].pack('C4')
  private_constant :STORED, :REFUSED

  module_function

  # Sends one task, and returns when the server has stored it.
  #
  # dictionary, at, priority   as for Spool.spool
  # address  "host:port", "[ipv6]:port", "/path.sock" or "@abstract"
  # spooler  which of the server's spool directories; by default the first one
  # body     bytes; only spoold accepts a body over a socket, uWSGI silently drops it
  # timeout  seconds, for the connection, and for each step of the exchange
  #
  # Raises ArgumentError for invalid arguments, and SocketError for an unknown host, before anything is sent; Refused if the task was not
  # stored; IOError or SystemCallError if it may have been stored.
  def send_task(dictionary, address, at: nil, priority: nil, spooler: nil, body: '', timeout: 10)
    pairs = dictionary.to_a
    pairs += [['spooler', spooler]] if spooler
    pairs += [['CONTENT_LENGTH', body.bytesize]] unless body.empty? # the packet itself has no field for the size of the body
    packet = Spool.encode(pairs, at&.to_f, priority)
    answer = exchange(packet + body.b, address, timeout)
    return if answer == STORED
    raise Refused, "#{address} did not store the task: see its log (is the spooler one of its own? is the disk full?)" if answer == REFUSED
    raise IOError, "#{address} does not speak the uwsgi protocol, it answered #{answer.inspect}" if answer.bytesize == 4

    raise IOError, "#{address} closed without an answer to #{packet.bytesize} bytes: its buffer-size may be smaller, or it has no spooler"
  end

  # Returns a connected socket.
  def connect(address, timeout)
    return Addrinfo.unix(address).connect(timeout: timeout) if address.start_with?('/')
    return Addrinfo.unix("\0#{address[1..]}\0").connect(timeout: timeout) if address.start_with?('@') # trailing NUL: uWSGI

    host, port = address.match(/\A\[?(.*?)\]?:([0-9]+)\z/m)&.captures
    raise ArgumentError, "the address must be host:port, /path or @name, got #{address}" unless host

    Socket.tcp(host, port.to_i, connect_timeout: timeout)
  end

  # Sends a request, and returns the first four bytes of the server's answer; fewer if it sends less.
  def exchange(request, address, timeout)
    connection = connect(address, timeout)
    begin
      late = -> { raise Errno::ETIMEDOUT, "#{address} did not answer within #{timeout} s" }
      write(connection, request, timeout, &late)
      read(connection, timeout, &late)
    ensure
      connection.close
    end
  end

  def write(connection, rest, timeout)
    until rest.empty?
      sent = connection.write_nonblock(rest, exception: false)
      if sent == :wait_writable
        connection.wait_writable(timeout) || yield
      else
        rest = rest.byteslice(sent..-1)
      end
    end
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil # a refusal may arrive before the body's end
  end

  def read(connection, timeout)
    answer = +''.b
    while answer.bytesize < 4
      part = connection.read_nonblock(4 - answer.bytesize, exception: false)
      break if part.nil?
      next connection.wait_readable(timeout) || yield if part == :wait_readable

      answer << part
    end
    answer
  rescue Errno::ECONNRESET
    answer # a server that has not read everything resets the connection
  end
  private_class_method :exchange, :write, :read
end
