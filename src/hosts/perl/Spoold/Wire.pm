# The bytes between a worker and its host. src/runtime/worker/hosts/frames.ts is the other side, and explains them.
package Spoold::Wire;
use strict;
use warnings;
use Fcntl qw(F_SETFD FD_CLOEXEC);
use IO::Handle;    # blocking
use POSIX ();      # loaded here, because a time limit could interrupt loading at the first call, and leave half of it

use constant { TASKS_FD => 3, CALLS_FD => 4, PAGE_FD => 5, LIFELINE_FD => 6 };
use constant { READY => 1, UNLOADABLE => 2, DONE => 3, DETAIL => 4, RECALLED => 5, SIGNAL_ENDED => 6, OUTPUT => 7 };
use constant MAX_TEXT_BYTES => 65536;

our $lifeline;    # stays open until the process ends

sub new {
    my ($class) = @_;
    my ($tasks, $calls, $page) = map { _open($_) } TASKS_FD, CALLS_FD, PAGE_FD;
    $lifeline = _open(LIFELINE_FD);
    return bless { tasks => $tasks, calls => $calls, page => $page, pid => $$ }, $class;
}

# Returns the next message; undefined if the worker is gone.
sub read_message {
    my ($self) = @_;
    my $head = _read($self->{tasks}, 4) // return undef;
    return _read($self->{tasks}, unpack('V', $head));
}

# Returns the settings, with the list of values of each name. They are the first message, which repeats a name for each value.
sub read_settings {
    my ($self) = @_;
    my @items = $self->read_list;
    my %settings;
    while (my ($name, $value) = splice @items, 0, 2) { push @{ $settings{$name} }, $value }
    return \%settings;
}

sub read_list {
    my ($self) = @_;
    return unpack('(V/a)*', $self->read_message // '');
}

sub send {
    my ($self, $kind, $number, $text) = @_;
    $text //= '';
    utf8::encode($text) if utf8::is_utf8($text);
    $text = substr($text, 0, MAX_TEXT_BYTES);
    write_all($self->{tasks}, pack('a4CVV', "\xffSPL", $kind, $number // 0, length $text) . $text);
}

# Sends a request to the worker, waits, and returns the reply: (undef, values), or the reason for a refusal.
sub call {
    my ($self, $name, @arguments) = @_;
    return "a process that a task forked cannot speak for it; do it in the task itself" if $$ != $self->{pid};
    my ($status, @values) = unpack('(V/a)*', _exchange($self->{calls}, pack('(V/a)*', $name, @arguments)));
    return $status eq 'ok' ? (undef, @values) : $values[0];
}

# Sends a message, and returns the reply. Half an exchange would leave its reply to the next one.
sub _exchange {
    my ($handle, $message) = @_;
    return uninterrupted(sub {
        write_all($handle, pack('V/a', $message));
        my $head = _read($handle, 4) // exit 1;    # the worker is gone
        return _read($handle, unpack('V', $head)) // exit 1;
    });
}

# Runs code, and returns its value. Signals wait meanwhile, because a handler may die, such as that of a time limit.
sub uninterrupted {
    my ($code) = @_;
    local $@;    # keeps the handler's value
    my ($all, $before) = (POSIX::SigSet->new(1 .. 31), POSIX::SigSet->new);
    POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new, $before);
    my $value;
    my $is_whole = eval {
        POSIX::sigprocmask(POSIX::SIG_BLOCK(), $all);    # the handler of a signal that came before is called right here
        $value = $code->();
        1;
    };
    my $error = $@;
    POSIX::sigprocmask(POSIX::SIG_SETMASK(), $before);
    return $value if $is_whole;
    local $SIG{__DIE__};    # that handler has already had this error
    die $error;
}

sub _open {
    my ($fd) = @_;
    open(my $handle, '+<&=', $fd) or die "descriptor $fd: $!";
    binmode $handle;
    fcntl($handle, F_SETFD, FD_CLOEXEC);
    return $handle;
}

sub _read {
    my ($handle, $length) = @_;
    my $data = '';
    while (length $data < $length) {
        my $count = sysread $handle, $data, $length - length $data, length $data;
        next if !defined $count && _is_passing($handle);
        return undef if !$count;
    }
    return $data;
}

# True if a call may be repeated: a signal has interrupted it, or a task or a child process had made the pipe non-blocking.
sub _is_passing { my ($handle) = @_; return $!{EINTR} || $!{EAGAIN} && defined $handle->blocking(1) }

# Writes all data.
sub write_all {
    my ($handle, $data) = @_;
    my $done = 0;
    while ($done < length $data) {
        my $count = syswrite $handle, $data, length($data) - $done, $done;
        next if !defined $count && _is_passing($handle);
        $done += $count // exit 1;    # the worker is gone
    }
}

1;
