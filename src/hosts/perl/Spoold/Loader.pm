# Runs the configured files, in uWSGI's order (plugins/psgi/psgi_loader.c, psgi_plugin.c).
package Spoold::Loader;
use strict;
use warnings;
use Cwd qw(getcwd);
use Spoold::Wire;

# Runs the configured files, and reports the result to the worker. Returns true if tasks may follow.
sub load {
    my ($wire, $settings, $loop) = @_;
    my $home = getcwd();
    my $loaded = eval {
        my @before = _surroundings();
        _run($_, $home) for @{ $settings->{'perl-exec'} // [] };
        _tell_of_process($wire, @before) if $settings->{'lazy-apps'};
        my @failures = _load_applications($settings, $home);
        _tell_of_process($wire, @before) if !$settings->{'lazy-apps'};
        uwsgi::_fork();
        _run($_, $home) for @{ $settings->{'perl-exec-post-fork'} // [] };
        uwsgi::_postfork();
        _judge($wire, $settings, $loop, @failures);
        1;
    };
    if   ($loaded) { $wire->send(Spoold::Wire::READY, 0, _declared()) }
    else           { $wire->send(Spoold::Wire::UNLOADABLE, 0, $@ =~ s/\s+\z//r) }
    return $loaded;
}

# Returns what crons and their commands inherit from the process in which they run.
sub _surroundings { return (getcwd(), umask, {%ENV}) }

# Reports what the code loaded so far has changed in this process. uWSGI loads that code in its master, which runs crons, so the
# changes hold for crons.
sub _tell_of_process {
    my ($wire, $old_directory, $old_umask, $old) = @_;
    my ($directory, $umask, $env) = _surroundings();
    my @changed = map { "$_=$env->{$_}" } grep { !defined $old->{$_} || $old->{$_} ne $env->{$_} } sort keys %$env;
    push @changed, grep { !exists $env->{$_} } sort keys %$old;
    my @own = ($directory ne $old_directory ? $directory : '', $umask != $old_umask ? $umask : '');
    $wire->call('loaded', @own, @changed) if @changed || grep { $_ ne '' } @own;
}

# Returns the declarations of the named tasks; '' if the library was not loaded, or there are none.
sub _declared { return defined &Spoold::Tasks::_declared ? Spoold::Tasks::_declared() : '' }

# Loads applications as uWSGI does, and serves none of them. Returns an error message per application that could not be loaded.
sub _load_applications {
    my ($settings, $home) = @_;
    my @values = @{ $settings->{application} // [] };
    my @failures;
    $ENV{PLACK_ENV} //= 'uwsgi' if @values;
    while (my ($option, undef, $file) = splice @values, 0, 3) {
        next if eval { _run($file, $home); 1 };
        push @failures, "the application of $option = $file could not be loaded: $@" =~ s/\s+\z//r;
    }
    return @failures;
}

# Dies if this host cannot run tasks. Code that registers nothing, or an application that fails, ends the worker only if there is
# no other handler. An application that registers nothing does not, because it is loaded for its side effects.
sub _judge {
    my ($wire, $settings, $loop, @failures) = @_;
    my $is_idle = !$loop->{spooler} && !%{ $loop->{signals} // {} } && _declared() eq '';
    my $idle = 'Perl code registered no handler: it leaves all tasks alone. Call uwsgi::spooler(sub { ... }) in what perl-exec, '
        . 'spooler-import or the web application loads';
    die "$idle\n" if $is_idle && $settings->{alone} && !$settings->{application};
    die join("\n", @failures) . "\n" if @failures && ($settings->{'need-app'} || $is_idle && $settings->{alone});
    $wire->call('warn', $_) for @failures;
    $wire->call('warn', $idle) if $is_idle;
}

sub _run {
    my ($file, $home) = @_;
    my $path = $file =~ m{^/} ? $file : "$home/$file";
    open(my $readable, '<', $path) or die "$path: $!\n";
    close $readable;
    # $0 is the file as the ini names it, as in uWSGI, for FindBin. It is an alias, because an assignment would change the process's
    # name in ps.
    *main::0 = \$file;
    _do($path);
    die "$@" if "$@" ne '';
}

# Runs a file. This is a function of its own so that the file sees no variables of the host, and starts in the package main.
sub _do { package main; do $_[0] }

1;
