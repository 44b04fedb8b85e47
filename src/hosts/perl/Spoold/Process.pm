# The process: it dies with its worker, and leaves signals to it.
package Spoold::Process;
use strict;
use warnings;
use Config;
use Fcntl qw(F_GETFL F_SETFL F_SETOWN O_ASYNC);
use Spoold::Wire;

use constant F_SETSIG => 10;    # Linux; not in Fcntl
use constant SIGKILL  => 9;

# The number of prctl, by processor.
use constant PRCTL => { x86_64 => 157, aarch64 => 167 };
use constant PR_SET_PDEATHSIG => 1;

sub prepare {
    _die_with_worker();

    # Terminals and init systems signal every process; the worker decides. Functions, because IGNORE would be inherited by every
    # program that a task starts.
    $SIG{$_} = \&_leave_to_worker for qw(INT TERM HUP USR1 USR2 ALRM TSTP);
    select((select(STDOUT), $| = 1)[0]);
    select((select(STDERR), $| = 1)[0]);
    @ARGV = ();
}

sub _leave_to_worker { }

my ($all, $theirs) = (POSIX::SigSet->new(1 .. 31), POSIX::SigSet->new);

# What came before is handled right here.
sub hold_signals        { POSIX::sigprocmask(POSIX::SIG_BLOCK(),   $all, $theirs) }
sub keep_holding        { POSIX::sigprocmask(POSIX::SIG_BLOCK(),   $all) }            # it may have begun, so the mask is no longer theirs
sub let_signals_through { POSIX::sigprocmask(POSIX::SIG_SETMASK(), $theirs) }

# The kernel sends SIGKILL when the other end of the lifeline closes, whatever this process is doing.
sub _die_with_worker {
    return if $^O ne 'linux';    # elsewhere it notices when its tasks end
    fcntl($Spoold::Wire::lifeline, F_SETOWN, $$);
    fcntl($Spoold::Wire::lifeline, F_SETSIG, SIGKILL);
    fcntl($Spoold::Wire::lifeline, F_SETFL, fcntl($Spoold::Wire::lifeline, F_GETFL, 0) | O_ASYNC);
    _send_at_death_of_worker(SIGKILL);
}

# Also if a task has closed the lifeline: it would go on while it runs elsewhere.
sub _send_at_death_of_worker {
    my ($signal) = @_;
    my ($processor) = $Config{archname} =~ /^(\w+)-linux/;
    my $number = PRCTL->{ $processor // '' };
    syscall($number, PR_SET_PDEATHSIG, $signal, 0, 0, 0) if defined $number;
}

# The worker exits regularly, so there is time to exit, too.
sub live_on {
    fcntl($Spoold::Wire::lifeline, F_SETFL, fcntl($Spoold::Wire::lifeline, F_GETFL, 0) & ~O_ASYNC);
    _send_at_death_of_worker(0);
}

# Ends a process that a task forked and that returned from the handler, or died in it, without the host's own cleanup.
sub leave_at_once {
    my ($error) = @_;
    POSIX::_exit(0) if !length($error // '');
    syswrite STDERR, "$error\n";
    POSIX::_exit(1);
}

1;
