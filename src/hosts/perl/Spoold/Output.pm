# Standard output and standard error as one pipe, which the worker reads; src/runtime/worker/hosts/host-output.ts explains it.
package Spoold::Output;
use strict;
use warnings;
use IO::Handle;    # autoflush
use Spoold::Wire;

use constant { NO_TASK => 0xFFFFFFFF, PIPE_BYTES => 1 << 20, OUTPUT_FLAG => 4033 };
use constant { F_SETPIPE_SZ => 1031, FIONREAD => 0x541B };    # Linux; not in Fcntl

# If the worker cannot read the pipe, output goes where it went before, and is never marked.
sub new {
    my ($class, $wire) = @_;
    my $self = bless { page => $wire->{page} }, $class;
    pipe(my $reader, my $writer) or return $self;
    $wire->send(Spoold::Wire::OUTPUT, 0, "/proc/$$/fd/" . fileno $reader);
    my ($token) = $wire->read_list;
    close $reader;
    $self->_take($writer, $token) if defined $token;
    return $self;
}

sub _take {
    my ($self, $writer, $token) = @_;
    fcntl($writer, F_SETPIPE_SZ, PIPE_BYTES);    # with a smaller pipe, the writer has to wait more often
    open(STDOUT, '>&', $writer) or die "standard output: $!\n";
    open(STDERR, '>&', $writer) or die "standard error: $!\n";
    $_->autoflush(1) for *STDOUT{IO}, *STDERR{IO};
    @$self{qw(pipe token)} = ($writer, "\0$token");
}

# Marks the end of a task's output. Returns false if there is no output to mark.
sub mark {
    my ($self, $number) = @_;
    my $pipe = $self->{pipe} or return 0;

    # the pipe before the flag: the flag then covers what the worker had taken out of the pipe by that time
    my $bytes = pack('i', 0);
    if (defined ioctl($pipe, FIONREAD, $bytes) && unpack('i', $bytes) == 0) {
        sysseek $self->{page}, OUTPUT_FLAG, 0;
        sysread $self->{page}, my $flag, 1;
        return 0 if $flag eq "\0";
    }
    Spoold::Wire::write_all($pipe, $self->{token} . pack('V', $number));
    return 1;
}

1;
