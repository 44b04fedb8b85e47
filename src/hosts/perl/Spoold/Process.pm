# This process: it dies with its worker, and leaves signals to the worker.
package Spoold::Process;
use strict;
use warnings;
use Config;
use Fcntl qw(F_GETFL F_SETFL F_SETOWN O_ASYNC);
use Spoold::Wire;

use constant F_SETSIG => 10;    # Linux; not in Fcntl
use constant SIGKILL  => 9;

# The number of the system call prctl, by processor.
use constant PRCTL => { x86_64 => 157, aarch64 => 167 };
use constant PR_SET_PDEATHSIG => 1;

sub prepare {
    _die_with_worker();

    # Terminals and init systems signal every process, but the worker decides. PIPE is an error of the write, as in uWSGI. The
    # handlers are functions, because every program that a task starts would inherit IGNORE.
    $SIG{$_} = \&_leave_to_worker for qw(INT TERM HUP USR1 USR2 ALRM TSTP PIPE);
    select((select(STDOUT), $| = 1)[0]);
    select((select(STDERR), $| = 1)[0]);
    @ARGV = ();
}

sub _leave_to_worker { }

my ($all, $theirs) = (POSIX::SigSet->new(1 .. 31), POSIX::SigSet->new);

# `hold_signals` saves the mask of user code. A signal that came before is handled right there, and its handler may die. Then
# `keep_holding` blocks signals without saving the mask, because it may be that of `hold_signals` already.
sub hold_signals        { POSIX::sigprocmask(POSIX::SIG_BLOCK(),   $all, $theirs) }
sub keep_holding        { POSIX::sigprocmask(POSIX::SIG_BLOCK(),   $all) }
sub let_signals_through { POSIX::sigprocmask(POSIX::SIG_SETMASK(), $theirs) }

# The kernel sends SIGKILL when the other end of the lifeline closes, whatever this process is doing.
sub _die_with_worker {
    return if $^O ne 'linux';    # elsewhere the end of the stream of tasks tells of the worker's end
    fcntl($Spoold::Wire::lifeline, F_SETOWN, $$);
    fcntl($Spoold::Wire::lifeline, F_SETSIG, SIGKILL);
    fcntl($Spoold::Wire::lifeline, F_SETFL, fcntl($Spoold::Wire::lifeline, F_GETFL, 0) | O_ASYNC);
    _send_at_death_of_worker(SIGKILL);
}

# Asks the kernel for a signal at the worker's death, 0: for none. It arrives even if a task has closed the lifeline; without it,
# the task would go on here while it runs elsewhere.
sub _send_at_death_of_worker {
    my ($signal) = @_;
    my ($processor) = $Config{archname} =~ /^(\w+)-linux/;
    my $number = PRCTL->{ $processor // '' };
    syscall($number, PR_SET_PDEATHSIG, $signal, 0, 0, 0) if defined $number;
}

# Lets this process outlive its worker: the worker exits regularly, so this process has time to exit, too.
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
