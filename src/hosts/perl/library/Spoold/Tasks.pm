# Named tasks: functions that are scheduled and run by name, with arguments in JSON.
#
#   use Spoold::Tasks qw(task schedule);
#   task 'send-mail', max_retries => 5, sub { my ($to, $options) = @_; ... };
#   schedule('send-mail', args => ['joe'], kwargs => { subject => 'hello' });
#
# A function gets the keyword arguments, if there are any, as its last argument: a hash. This module needs core modules only.
package Spoold::Tasks;
use strict;
use warnings;
use Carp qw();
use Cwd  qw();
use Exporter qw(import);
use JSON::PP qw();
use Scalar::Util qw();
use Spool;

our @EXPORT_OK = qw(task schedule retry abort);
use constant { IN_BODY => '@body', BODY_FROM_BYTES => 64_000, MAX_BYTES => 1_048_576, MAX_CHARS => 10_000 };

my $json = JSON::PP->new->utf8->canonical;
my %tasks;
my %declared;    # the tasks that the worker knows. A later one does not run, because the worker has no limits for it

# task $name, %options, $function: registers a function.
#
#   max_retries      how often a task runs again after a failure
#   max_concurrency  how many tasks of this name run at a time, over all processes and daemons of their spool
#   periodicity      the period after which the daemon schedules the task by itself: seconds, or text such as '5m'
#   cron, time_zone  a cron expression, at whose times the daemon schedules the task by itself, and its time zone
#
# With periodicity or cron the function gets no arguments, and docs/tasks.md explains the options missed and overlap.
sub task {
    my $function = pop;
    my ($name, %options) = @_;
    my (undef, $file, $line) = caller;
    my $place = (Cwd::realpath($file) // $file) . ":$line";    # the real path, the same however the file is loaded
    ref $function eq 'CODE' or Carp::croak("the task $name needs a function");
    return if $tasks{$name} && $tasks{$name}{place} eq $place;    # the file is loaded again
    Carp::croak("two tasks have the name $name: $tasks{$name}{place} and $place") if $tasks{$name};
    my ($retries, $most) = ($options{max_retries} // 0, $options{max_concurrency});
    Carp::croak("the task $name: max_concurrency is to be a whole number from 1, got $most")
        if defined $most && $most !~ /\A[1-9][0-9]*\z/;
    Carp::croak("the task $name: max_concurrency needs a positive max_retries") if defined $most && $retries <= 0;
    $tasks{$name} = {
        function => $function, max_retries => $retries, max_concurrency => $most, place => $place, periodic => _periodic(%options),
    };
    return;
}

# Returns the options of a periodic task for the worker, which checks them; undef for any other task.
sub _periodic {
    my (%options) = @_;
    $options{overlap} = $options{overlap} ? JSON::PP::true : JSON::PP::false if defined $options{overlap};
    my %key  = (time_zone => 'timeZone', map { $_ => $_ } qw(periodicity cron missed overlap));
    my %said = map { $key{$_} => $options{$_} } grep { defined $options{$_} } keys %key;
    return %said ? \%said : undef;
}

# schedule $name, args => [...], kwargs => {...}, at => $epoch, queue => $name, spooler => $directory: stores a task, and returns
# the path of its file. All but the name may be left out.
sub schedule {
    my ($name, %options) = @_;
    my ($args, $kwargs) = ($options{args} // [], $options{kwargs});
    my %text = (args => $json->encode($args), $kwargs ? (kwargs => $json->encode($kwargs)) : ());
    my $bytes = length($text{args}) + length($text{kwargs} // '');
    Carp::croak("the arguments of $name take $bytes bytes as JSON; " . MAX_BYTES . ' is the limit') if $bytes > MAX_BYTES;
    my $body = $bytes > BODY_FROM_BYTES ? $json->encode({ args => $args, $kwargs ? (kwargs => $kwargs) : () }) : '';
    %text = (args => IN_BODY) if length $body;
    my %packet = (task => $name, %text, defined $options{queue} ? (queue => $options{queue}) : ());
    my @at = defined $options{at} ? (at => $options{at}) : ();
    my $spooler = $options{spooler} // _place($options{queue});
    Carp::croak('Perl does not store tasks on Redis itself: name the directory that a daemon forwards there (spooler-fallback)')
        if defined $spooler && $spooler =~ m{\Arediss?(?:\+\w+)?:}i;    # the place may have a password
    return Spool::spool(\%packet, $spooler, @at, body => $body) if defined $spooler;
    return uwsgi::spool({ %packet, @at, length $body ? (body => $body) : () });
}

# die retry($message, at => $epoch): run the task again, at a time or after the backoff. It counts as one of max_retries.
sub retry {
    my ($message, %options) = @_;
    my $at = $options{at};
    Carp::croak("retry: at is to be epoch seconds, got $at") if defined $at && !(Scalar::Util::looks_like_number($at) && $at - $at == 0);
    return bless { message => $message, at => $at }, 'Spoold::Tasks::Retry';
}

# die abort($message): never run it again.
sub abort { my ($message) = @_; return bless { message => $message }, 'Spoold::Tasks::Abort' }

# Returns the directory of a queue; undef for the spool of the daemon in which this code runs.
sub _place {
    my ($queue) = @_;
    return undef if defined &uwsgi::spool && !defined $queue;
    my %places;
    for (split /,/, $ENV{SPOOLD_ENQUEUE_TO} // '') {
        my ($of, $place) = m{\A\s*(?:([^=/]*)=)?(.*?)\s*\z}s;
        $places{ $of // 'default' } = $place;
    }
    return $places{ $queue // 'default' } // Carp::croak('no spool is known for the queue '
            . ($queue // 'default')
            . '; give it one in the environment variable SPOOLD_ENQUEUE_TO, or name the directory with spooler => ...');
}

# -- for the host

# Runs a named task, and returns its answer: '' if it is done, otherwise JSON; undefined if no function had its name when the code
# was loaded. $run is a function that runs code, and returns the error that the code died with, or undefined.
sub _run {
    my ($env, $run) = @_;
    my $task = $declared{ $env->{task} } // return undef;
    my ($args, $kwargs);
    eval { ($args, $kwargs) = _arguments($env); 1 } or return $json->encode({ bury => 'the arguments cannot be read: ' . _text($@) });
    my $error = $run->(sub { $task->{function}->(@$args, $kwargs ? $kwargs : ()) }) // return '';
    my $kind  = Scalar::Util::blessed($error) // '';
    return $json->encode({ bury => _text($error->{message}) }) if $kind eq 'Spoold::Tasks::Abort';
    return $json->encode({ error => _text($error) }) if $kind ne 'Spoold::Tasks::Retry';
    my $wait = defined $error->{at} ? $error->{at} - time : undef;
    return $json->encode({ retry => !defined $wait ? JSON::PP::true : $wait > 0 ? $wait : 0, reason => _text($error->{message}) });
}

sub _arguments {
    my ($env) = @_;
    my $is_in_body = ($env->{args} // '') eq IN_BODY;
    my $both   = $is_in_body ? $json->decode($env->{body} // '') : {};
    my $args   = $is_in_body ? $both->{args} // [] : $json->decode($env->{args} // '[]');
    my $kwargs = $is_in_body ? $both->{kwargs}     : defined $env->{kwargs} ? $json->decode($env->{kwargs}) : undef;
    ref $args eq 'ARRAY' or die "args: expected a JSON array\n";
    !defined $kwargs or ref $kwargs eq 'HASH' or die "kwargs: expected a JSON object\n";
    return ($args, $kwargs);
}

sub _text {
    my ($error) = @_;
    return substr(Spoold::Loop::textof($error), 0, MAX_CHARS);
}

# Returns the declarations of the registered tasks, for the worker; '' if there are none.
sub _declared {
    %declared = %tasks;
    my @tasks = map {
        my $limit = $tasks{$_}{max_retries};
        my $most  = $tasks{$_}{max_concurrency};
        +{  name => $_, maxRetries => $limit == 9**9**9 ? -1 : $limit, place => $tasks{$_}{place},
            maxConcurrency => defined $most ? 0 + $most : undef, periodic => $tasks{$_}{periodic} };
    } sort keys %tasks;
    return @tasks ? $json->encode(\@tasks) : '';
}

1;
