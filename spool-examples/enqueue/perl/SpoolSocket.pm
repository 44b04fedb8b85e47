# Sends tasks to the socket of spoold or uWSGI. Copy this file and Spool.pm.
#
#   use SpoolSocket;
#   SpoolSocket::send_task({ to => 'joe' }, 'host:3031', at => time + 60, priority => 5);
package SpoolSocket;
use strict;
use warnings;
use IO::Socket::IP;
use IO::Socket::UNIX;
use Socket qw(SOL_SOCKET SO_RCVTIMEO SO_SNDTIMEO);
use Spool;

# send_task($dictionary, $address, %options): sends one task, and returns when the server has stored it.
#
#   $dictionary, at, priority   as for Spool::spool
#   $address  "host:port", "[ipv6]:port", "/path.sock" or "@abstract"
#   spooler   which of the server's spool directories; by default the first one
#   body      bytes; only spoold accepts a body over a socket, uWSGI silently drops it
#   timeout   seconds, for the connection and for the answer; by default 10
#
# Dies for invalid arguments, before anything is sent, and if the server did not confirm that it has stored the task.
sub send_task {
    my ($dictionary, $address, %options) = @_;
    my @pairs = ref $dictionary eq 'HASH' ? map { $_ => $dictionary->{$_} } sort keys %$dictionary : @$dictionary;
    my $body  = $options{body} // '';
    push @pairs, spooler => $options{spooler} if defined $options{spooler};

    # The packet itself has no field for the size of the body.
    push @pairs, CONTENT_LENGTH => length $body if length $body;
    my $packet     = Spool::encode(\@pairs, $options{at}, $options{priority});
    my $timeout    = $options{timeout} // 10;
    my $connection = connection($address, $timeout) or die "$address cannot be connected to: $@ $!\n";

    local $SIG{PIPE} = 'IGNORE';
    $! = 0;
    $connection->print($packet, $body) and $connection->flush;
    read $connection, my $answer, 4;    # not sysread, which a signal ends
    $!{EAGAIN} and die "$address did not answer within $timeout s\n";
    length $answer == 4
        or die sprintf "%s closed without an answer to %d bytes: its buffer-size may be smaller, or it has no spooler\n",
        $address, length $packet;
    $answer eq "\xff\0\0\0" and die "$address did not store the task: see its log (is the spooler one of its own? is the disk full?)\n";
    $answer eq "\xff\0\0\1" or die sprintf "%s does not speak the uwsgi protocol, it answered %s\n", $address, unpack 'H*', $answer;
    return;
}

# Returns a connected socket whose reads and writes wait for $timeout at most; undef on failure, and then $! or $@ says why.
sub connection {
    my ($address, $timeout) = @_;
    my $connection = _connect($address, $timeout) or return undef;
    $connection->setsockopt(SOL_SOCKET, $_, pack 'l!l!', $timeout, 0) for SO_RCVTIMEO, SO_SNDTIMEO;
    return $connection;
}

sub _connect {
    my ($address, $timeout) = @_;
    return IO::Socket::UNIX->new(Peer => $address, Timeout => $timeout) if $address =~ m{\A/};
    return IO::Socket::UNIX->new(Peer => "\0$1\0", Timeout => $timeout) if $address =~ /\A\@(.*)/s;   # trailing NUL: uWSGI
    my ($host, $port) = $address =~ /\A\[?(.*?)\]?:([0-9]+)\z/ or die "the address must be host:port, /path or \@name, got $address\n";
    return IO::Socket::IP->new(PeerHost => $host, PeerPort => $port, Timeout => $timeout);
}

1;
