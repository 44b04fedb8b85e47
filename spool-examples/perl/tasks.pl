use strict;
use warnings;
$| = 1;    # unbuffered, so that output is in the log at once, under uWSGI too

# The functions that a task's key `do` may name. Their result decides what happens to the task's file.
my %functions = (

    # spoold enqueue do=greet to=world
    greet => sub {
        my ($task) = @_;
        my $letter = defined $task->{body} ? ', your letter has ' . length($task->{body}) . ' bytes' : '';
        say_it("hello $task->{to}$letter");
        return uwsgi::SPOOL_OK;    # done: the file is removed
    },

    # spoold enqueue do=greet_all to=ann,bob
    greet_all => sub {
        my ($task) = @_;
        uwsgi::spool({ do => 'greet', to => $_ }) for split /,/, $task->{to};
        return uwsgi::SPOOL_OK;
    },

    # spoold enqueue do=fetch
    fetch => sub {
        my ($task) = @_;
        die "no network yet\n" if !$::tries{ $task->{spooler_task_name} }++;    # the file is kept, and the task runs again
        say_it('fetched at the second attempt');
        return uwsgi::SPOOL_OK;
    },
);

our %tries;

sub say_it { print "perl: $_[0]\n" }

uwsgi::spooler(sub {
    my ($task) = @_;
    my $function = $functions{ $task->{do} // '' } or return uwsgi::SPOOL_IGNORE;
    return $function->($task);
});

# Calls the function every 2 seconds, in one spooler process.
uwsgi::register_signal(1, 'spooler', sub { say_it('it is ' . localtime) });
uwsgi::add_timer(1, 2);
