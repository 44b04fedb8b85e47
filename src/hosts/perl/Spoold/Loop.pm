# Runs tasks and signals as they arrive, one at a time.
package Spoold::Loop;
use strict;
use warnings;
use List::Util ();
use overload ();
use Scalar::Util ();
use Spoold::Output;
use Spoold::Process;
use Spoold::Wire;

use constant { TASK => 1, RECALL => 2, SIGNAL => 3, HEAD_BYTES => 21, PACKET_HEADER_BYTES => 4 };

# The page, one byte per task: src/runtime/ipc/host-page.ts
use constant { NOT_STARTED => "\0", STARTED => "\1", OK => "\2", RETRY => "\3", IGNORE => "\4", ERROR => "\5", ANSWER => "\6" };
use constant PRINTED => "\10";
use constant { SLOTS => 4032, RECALL_FLAG => 4032 };

sub new {
    my ($class, $wire, $settings, $output) = @_;
    my $self = {
        wire    => $wire,
        output  => $output,
        home    => $settings->{home}[0],
        chdir   => $settings->{chdir} && $settings->{chdir}[0],
        next    => 0,
        signals => {},
        spooler => undef,
    };
    return bless $self, $class;
}

sub serve {
    my ($self) = @_;
    Spoold::Process::hold_signals();
    while (defined(my $message = $self->_next_message)) { $self->_serve($message) }
    Spoold::Process::let_signals_through();
    Spoold::Process::live_on();
}

sub _next_message {
    my ($self) = @_;
    vec(my $tasks = '', fileno $self->{wire}{tasks}, 1) = 1;
    my $is_there = 0;
    until ($is_there) {
        my $error = $self->_interruptible(sub { $is_there = select(my $ready = $tasks, undef, undef, undef) > 0 || !$!{EINTR} });
        $self->_blame($error) if defined $error;
    }
    return $self->{wire}->read_message;
}

# Runs code that signals may interrupt. Everywhere else signals wait, because a handler that dies amid the host's own work would
# leave half of it undone. Returns the error that the code died with; undefined if it did not die.
sub _interruptible {
    my ($self, $code) = @_;
    my $error = 'the spooler function was left by next or last';
    eval {
        {    # a `next` or `last` in the code ends this block, and not a loop of the host
            no warnings;
            eval {
                eval { Spoold::Process::let_signals_through(); 1 } or $self->_blame($@);    # for a signal that has waited
                $code->();
                undef $error;
                1;
            } or $error = $@;
        }
        Spoold::Process::hold_signals();
        1;
    } or do {
        $error //= $@;
        Spoold::Process::keep_holding();
    };
    return $error;
}

# Reports what a signal handler died with outside any task. In uWSGI the next task fails because of it.
sub _blame {
    my ($self, $error) = @_;
    syswrite STDERR, 'a signal handler died outside any task: ' . textof($error) . "\n";
    $self->{output}->mark(Spoold::Output::NO_TASK);
}

sub _serve {
    my ($self, $message) = @_;
    my ($page, $pid) = @{ $self->{wire} }{qw(page pid)};
    my ($home, $chdir) = @$self{qw(home chdir)};
    my ($number, $at, $end) = ($self->{next}, 0, length $message);
    while ($at < $end) {
        my ($kind, undef, $name_bytes, $block_bytes, $body_bytes) = unpack('CvvVVx8', substr($message, $at, HEAD_BYTES));
        $at += HEAD_BYTES;
        if ($kind == TASK) {
            my $slot = $number % SLOTS;
            _mark($page, $slot, STARTED);
            sysseek $page, RECALL_FLAG, 0;
            sysread $page, my $is_recalled, 1;
            if ($is_recalled ne "\0") {
                _mark($page, $slot, NOT_STARTED);
                return $self->_await_recall($number, $message, $at - HEAD_BYTES);
            }
            my $name  = substr($message, $at, $name_bytes);
            my $block = $at + $name_bytes;
            my $body  = $block + $block_bytes;
            my $slash = rindex($name, '/');
            my $env = { unpack('(v/a)*', substr($message, $block + PACKET_HEADER_BYTES, $block_bytes - PACKET_HEADER_BYTES)) };
            $env->{spooler_task_name} = substr($name, $slash + 1);
            $env->{body} = substr($message, $body, $body_bytes) if $body_bytes;

            # as in uWSGI, a missing directory does not fail the task
            chdir($chdir // ($slash < 0 ? $home : "$home/" . substr($name, 0, $slash)));
            my $result = $self->_ask($env, $number);
            Spoold::Process::leave_at_once() if $$ != $pid;
            undef $env;    # the destructors of what it holds are the task's code
            _mark($page, $slot, $self->{output}->mark($number) ? $result | PRINTED : $result);
            $number++;
            $at = $body + $body_bytes;
        }
        elsif ($kind == SIGNAL) { $self->_signal($name_bytes) }
        elsif ($kind == RECALL) { $self->_recalled($number) }
    }
    $self->{next} = $number;
    $self->{wire}->send(Spoold::Wire::DONE, $number);
}

sub _mark {
    my ($page, $slot, $state) = @_;
    sysseek $page, $slot, 0;
    syswrite $page, $state or die "a task closed the descriptors of its interpreter: $!\n";
}

# Runs a task, and returns its state for the page. uWSGI silently keeps and retries a task with an unknown number; here that is an
# error. A value that is not a number counts as 0.
sub _ask {
    my ($self, $env, $number) = @_;
    if (defined $env->{task} && defined &Spoold::Tasks::_run) {
        my $said = Spoold::Tasks::_run($env, sub { $self->_interruptible(@_) });
        return $said eq '' ? OK : $self->_answered($number, $said) if defined $said;
    }
    my $handler = $self->{spooler} or return IGNORE;
    my ($answer, $value);
    my $error = $self->_interruptible(sub { $value = int($answer = $handler->($env)) });
    if (defined $error) {
        Spoold::Process::leave_at_once(textof($error)) if $$ != $self->{wire}{pid};
        return $self->_failed($number, $error);
    }
    return OK     if $value == -2;
    return RETRY  if $value == -1;
    return IGNORE if $value == 0;
    return $self->_failed($number, _wrong($answer));
}

sub _answered {
    my ($self, $number, $said) = @_;
    $self->{wire}->send(Spoold::Wire::DETAIL, $number, $said) if $$ == $self->{wire}{pid};
    return ANSWER;
}

sub _failed {
    my ($self, $number, $error) = @_;
    $self->{wire}->send(Spoold::Wire::DETAIL, $number, textof($error)) if $$ == $self->{wire}{pid};
    return ERROR;
}

# Returns an error as text: an object as its own conversion, its `message`, or its contents. The conversion runs code of the
# object, which may die.
sub textof {
    my ($error) = @_;
    my $text = eval { ref $error && !overload::Method($error, '""') ? _inside($error) : "$error" } // 'an object of ' . ref $error;
    return $text =~ s/\s+\z//r;
}

sub _inside {
    my ($it) = @_;
    my $class = Scalar::Util::blessed($it) // '';
    my $said = $class ne '' && $it->can('message') ? eval { $it->message } : undef;
    return "$class: $said" if defined $said && !ref $said;
    my $kind = Scalar::Util::reftype($it);
    my $parts =
          $kind eq 'HASH'  ? '{ ' . join(', ', map { "$_ => " . _shown($it->{$_}) } (sort keys %$it)[ 0 .. List::Util::min(9, keys(%$it) - 1) ]) . ' }'
        : $kind eq 'ARRAY' ? '[' . join(', ', map { _shown($_) } @$it[ 0 .. List::Util::min(9, $#$it) ]) . ']'
        :                    "$it";
    return $class eq '' ? $parts : "$class $parts";
}

sub _shown { my ($value) = @_; return defined $value ? "$value" : 'undef' }

sub _wrong {
    my ($answer) = @_;
    my $text = length $answer > 80 ? substr($answer, 0, 77) . '...' : $answer;
    return "the spooler function returned $text; expected uwsgi::SPOOL_OK (-2), uwsgi::SPOOL_RETRY (-1) or "
        . 'uwsgi::SPOOL_IGNORE (0), so the task is retried';
}

# Skips the tasks before the recall in the stream, because the worker has taken them back.
sub _await_recall {
    my ($self, $number, $message, $at) = @_;
    while (defined $message) {
        while ($at < length $message) {
            my ($kind, undef, @bytes) = unpack('CvvVVx8', substr($message, $at, HEAD_BYTES));
            $at += HEAD_BYTES;
            if    ($kind == TASK)   { $at += $_ for @bytes }
            elsif ($kind == SIGNAL) { $self->_signal($bytes[0]) }
            else {
                $self->{next} = $number;
                return $self->_recalled($number);
            }
        }
        ($message, $at) = ($self->{wire}->read_message, 0);
    }
    Spoold::Process::let_signals_through();
    Spoold::Process::live_on();
    exit 0;
}

sub _recalled {
    my ($self, $number) = @_;
    _mark($self->{wire}{page}, RECALL_FLAG, "\0");
    $self->{wire}->send(Spoold::Wire::RECALLED, $number);
}

sub _signal {
    my ($self, $number) = @_;
    chdir $self->{home}; # regardless of spooler-chdir, as in uWSGI
    my $error = textof($self->_interruptible(sub { $self->{signals}{$number}->($number) }) // '');
    Spoold::Process::leave_at_once($error) if $$ != $self->{wire}{pid};
    $self->{output}->mark(Spoold::Output::NO_TASK);
    $self->{wire}->send(Spoold::Wire::SIGNAL_ENDED, $number, $error);
}

1;
